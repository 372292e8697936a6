-- Give back the lock of one node of a RedLock: as release.lua, with its arguments and answers. Before that the first who waits is told,
-- who can ask only when this script has ended.
--
-- KEYS[4] the list of waits; absent where the lock is all that may be named

if KEYS[4] then
  if redis.pcall('TYPE', KEYS[4]).ok == 'zset' and redis.pcall('GET', KEYS[1]) == ARGV[1] then
    wake(KEYS[4])
  end
end
