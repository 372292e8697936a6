-- Count the tasks of a queue.
--
-- KEYS d due, l leased, p records, i idle receivers, z dead letters, w delayed
--      ones of keys, s due again after an interruption, v what is paused; see
--      docs/internals/queue-design.md
-- ARGV[1] dead letters that are kept   ARGV[2] for so many ms
--
-- {due, delayed, leased, behind a key, a lock or a pause, dead, idle receivers,
-- us since the oldest due task is due, 1 if the queue is paused or 0, how many
-- keys are paused}

if #ARGV ~= 2 then
  return redis.error_reply('ERR relock: task_stats: bad arguments')
end
local letters, ms = whole(ARGV[1], 0), whole(ARGV[2], 0)
if not letters or not ms then
  return redis.error_reply('ERR relock: task_stats: bad arguments')
end
local t = redis.call('TIME')
local now = string.format('%.0f', t[1] * 1000000 + t[2])
local due, unleased, age = 0, 0, 0
for _, set in ipairs({KEYS[1], KEYS[6], KEYS[7]}) do
  due = due + redis.call('ZCOUNT', set, '-inf', now)
  unleased = unleased + redis.call('ZCARD', set)
  local oldest = redis.call('ZRANGEBYSCORE', set, '-inf', now, 'WITHSCORES', 'LIMIT', 0, 1)[2]
  if oldest then
    age = math.max(age, now - oldest)
  end
end
local idle = redis.call('ZCOUNT', KEYS[4], string.format('%.0f', now - 2500000), '+inf')
local taken = redis.call('ZCARD', KEYS[2])
local behind = redis.call('HLEN', KEYS[3]) - unleased - taken - redis.call('ZCARD', KEYS[5]) -- each task is in one place
local dead = redis.call('ZCOUNT', KEYS[5], string.format('%.0f', oldest_kept(KEYS[5], letters, ms, now)), '+inf')
local ended = redis.call('ZCOUNT', KEYS[2], '-inf', now) -- due, though no receive has come since
local keys, paused = redis.call('HLEN', KEYS[8]), 0
if redis.call('HGET', KEYS[8], '\0') then
  paused = 1
end
return {due + ended, unleased - due, taken - ended, math.max(0, behind), dead, idle, age, paused, keys - paused}
