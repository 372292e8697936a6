-- Release the lock on one node of a RedLock: release.lua follows, with its
-- arguments and replies. Before that the first waiter is notified. It can ask
-- only once this script has ended.
--
-- KEYS[4] the list of waiters; absent if the script may use only the lock's key

if KEYS[4] and redis.pcall('EXISTS', KEYS[4]) == 1 then
  local value = redis.pcall('GET', KEYS[1])
  if value == ARGV[1] or unmarked(value) == ARGV[1] then
    notify(KEYS[4])
  end
end
