-- List dead letters, the oldest first.
--
-- KEYS    p records, m attempts, z dead letters; see
--         docs/internals/queue-design.md
-- ARGV[1] the number of the last letter that is known, or 0
-- ARGV[2] how many, at most 64
-- ARGV[3] dead letters that are kept   ARGV[4] for so many ms
-- ARGV[5] how many bytes of records at most, but at least one record
--
-- For each letter its id, its number, what is stored of its attempts, and its
-- record.

if #ARGV ~= 5 then
  return redis.error_reply('ERR relock: task_dead: bad arguments')
end
local most, kept, age, size = whole(ARGV[2], 1), whole(ARGV[3], 0), whole(ARGV[4], 0), whole(ARGV[5], 1)
if not string.find(ARGV[1], '^%d+$') or not most or most > 64 or not kept or not age or not size then
  return redis.error_reply('ERR relock: task_dead: bad arguments')
end
local t = redis.call('TIME')
local oldest, from = oldest_kept(KEYS[3], kept, age, t[1] * 1000000 + t[2]), '(' .. ARGV[1]
if oldest > tonumber(ARGV[1]) then
  from = string.format('%.0f', oldest)
end
local answer, bytes = {}, 0
local letters = redis.call('ZRANGEBYSCORE', KEYS[3], from, '+inf', 'WITHSCORES', 'LIMIT', 0, most)
for i = 1, #letters, 2 do
  bytes = bytes + redis.call('HSTRLEN', KEYS[1], letters[i])
  if i > 1 and bytes > size then
    return answer
  end
  answer[#answer + 1] = letters[i]
  answer[#answer + 1] = letters[i + 1]
  answer[#answer + 1] = tostring(redis.call('HGET', KEYS[2], letters[i]))
  answer[#answer + 1] = tostring(redis.call('HGET', KEYS[1], letters[i]))
end
return answer
