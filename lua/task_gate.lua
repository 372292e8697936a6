-- Promise that somebody waits for locks that have tasks behind them, or end
-- such promises.
--
-- KEYS    b behind locks, g until when somebody waits for a lock, i idle
--         receivers; see docs/internals/queue-design.md
-- ARGV[1] for how many ms the promise holds; 0 ends it: the next receive of
--         anybody makes the tasks due
-- ARGV[2], and so on: the locks, at most 64
--
-- How many of the locks have tasks behind them.

if #ARGV < 2 or #ARGV > 65 then
  return redis.error_reply('ERR relock: task_gate: bad arguments')
end
local wait, locks = whole(ARGV[1], 0), {}
for i = 2, #ARGV do
  if #ARGV[i] == 0 or #ARGV[i] > 9999 then
    wait = nil
  end
  locks[i - 1] = ARGV[i]
end
if not wait then
  return redis.error_reply('ERR relock: task_gate: bad arguments')
end
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
redis.call('ZREM', KEYS[2], '') -- never refused for want of memory, nor is what follows
local busy = 0
for _, lock in ipairs(locks) do
  if #first_behind(KEYS[1], behind_lock(lock), 1) == 0 then
    redis.call('ZREM', KEYS[2], lock)
  else
    busy = busy + 1
    promise(KEYS[2], lock, wait, now)
  end
end
if wait == 0 then
  wake(KEYS[3], math.min(busy, 1), now)
end
return busy
