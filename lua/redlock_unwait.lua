-- Take the wait of a call that has ended out of the list of a RedLock's node. What it was told, if the lock is free, the next one is told.
--
-- KEYS[1] the lock   KEYS[2] the list of waits, see redlock_wake.lua
-- ARGV[1] wait
--
-- 1: it is not in the list

if not string.find(ARGV[1], '^[^:]+:%d+:q$') then
  return redis.error_reply('ERR relock: redlock_unwait: bad arguments')
end
redis.call('ZREM', KEYS[2], ARGV[1])
if redis.call('EXISTS', KEYS[1]) == 0 then
  wake(KEYS[2])
end
return 1
