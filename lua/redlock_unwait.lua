-- Remove the waiter of a call that has ended from the list of a RedLock's node.
-- If the lock is free, the next waiter is notified in its place.
--
-- KEYS[1] the lock
-- KEYS[2] the list of waiters, see redlock_wake.lua
-- ARGV[1] waiter
--
-- 1: it is not in the list

if not string.find(ARGV[1], '^[^:]+:%d+:q$') then
  return redis.error_reply('ERR relock: redlock_unwait: bad arguments')
end
redis.call('ZREM', KEYS[2], ARGV[1])
if redis.call('EXISTS', KEYS[1]) == 0 then
  notify(KEYS[2])
end
return 1
