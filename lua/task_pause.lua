-- Pause or resume a queue, or a key of it.
--
-- KEYS    v what is paused, d due, m attempts, s due again after an
--         interruption, b behind locks and paused keys, i idle receivers; see
--         docs/internals/queue-design.md
-- ARGV[1] 1 to pause, 0 to resume
-- ARGV[2] the key, or "" for the queue, which is the field \0: a key has none
--
-- 1: done   4: send it again, more is to do

if #ARGV ~= 2 or (ARGV[1] ~= '0' and ARGV[1] ~= '1') or #ARGV[2] > 999 or string.find(ARGV[2], '%z') then
  return redis.error_reply('ERR relock: task_pause: bad arguments')
end
local t = redis.call('TIME')
local now, key = t[1] * 1000000 + t[2], ARGV[2]
may(KEYS[2], KEYS[3])
if ARGV[1] == '1' then
  if key == '' then
    key = '\0'
  end
  redis.call('HSETNX', KEYS[1], key, text(now))
  return 1
end
if key == '' then
  redis.call('HDEL', KEYS[1], '\0')
  wake(KEYS[6], 16, now) -- all of them know again when something is due
  return 1
end
local read, back = give_back(KEYS[5], behind_pause(key), 64, KEYS[2], KEYS[4], KEYS[3], now)
if read == 64 then
  return 4
end
redis.call('HDEL', KEYS[1], key)
wake(KEYS[6], back, now)
return 1
