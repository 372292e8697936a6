-- List dead letters, the oldest first.
--
-- KEYS    p records, m attempts, z dead letters; see docs/queue-design.md
-- ARGV[1] the number of the last letter that is known, or 0
-- ARGV[2] how many, at most 64
--
-- For each letter its id, its number, what is stored of its attempts, and its
-- record. At most 4 MiB, but at least one.

if #ARGV ~= 2 then
  return redis.error_reply('ERR relock: task_dead: bad arguments')
end
local most = whole(ARGV[2], 1)
if not string.find(ARGV[1], '^%d+$') or not most or most > 64 then
  return redis.error_reply('ERR relock: task_dead: bad arguments')
end
local answer, bytes = {}, 0
local letters = redis.call('ZRANGEBYSCORE', KEYS[3], '(' .. ARGV[1], '+inf', 'WITHSCORES', 'LIMIT', 0, most)
for i = 1, #letters, 2 do
  local size = redis.call('HSTRLEN', KEYS[1], letters[i])
  bytes = bytes + size
  if i > 1 and bytes > 4194304 then
    return answer
  end
  answer[#answer + 1] = letters[i]
  answer[#answer + 1] = letters[i + 1]
  answer[#answer + 1] = tostring(redis.call('HGET', KEYS[2], letters[i]))
  answer[#answer + 1] = tostring(redis.call('HGET', KEYS[1], letters[i]))
end
return answer
