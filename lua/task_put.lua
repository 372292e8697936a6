-- Put tasks without a key into a queue, whose done ids are not refused. This is
-- task_enqueue.lua without what such tasks do not need, which is most of its
-- time.
--
-- KEYS    d due, p records, i idle receivers; see
--         docs/internals/queue-design.md
-- ARGV[1] 8 bytes that are drawn for this call
-- ARGV[2], and so on: for each task its id, its delay in ms, and its body:
--         000000, and what no script reads
--
-- For each task 1: queued, also by an earlier copy. 0: its id is in use.

if #ARGV < 4 or #ARGV % 3 ~= 1 or #ARGV[1] ~= 8 then
  return redis.error_reply('ERR relock: task_put: bad arguments')
end
for i = 2, #ARGV, 3 do
  local delay = ARGV[i + 1]
  if #ARGV[i] == 0 or not string.find(delay, '^%d+$') or #delay > 15 or string.sub(ARGV[i + 2], 1, 6) ~= '000000' then
    return redis.error_reply('ERR relock: task_put: bad arguments')
  end
end

local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local answers, added, soon = {}, {}, 0
if #ARGV > 4 then
  redis.call('HGET', KEYS[2], '') -- fails before the first write, if at all
end
for i = 2, #ARGV, 3 do
  local at = now + #answers + ARGV[i + 1] * 1000
  local score = string.format('%016.0f', at)
  local answer = redis.call('HSETNX', KEYS[2], ARGV[i], ARGV[1] .. score .. ARGV[i + 2])
  if answer == 1 then
    added[#added + 1] = score
    added[#added + 1] = ARGV[i]
    if at <= now + period then
      soon = soon + 1
    end
  elseif string.sub(redis.call('HGET', KEYS[2], ARGV[i]), 1, 8) == ARGV[1] then
    answer = 1
  end
  answers[#answers + 1] = answer
end
if #added > 0 then
  local reply = redis.pcall('ZADD', KEYS[1], unpack(added))
  if type(reply) == 'table' then -- no permission: the ids are free again
    for i = 2, #added, 2 do
      redis.call('HDEL', KEYS[2], added[i])
    end
    return reply
  end
  wake(KEYS[3], soon, now)
end
return answers
