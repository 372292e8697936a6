-- Extend the lease of a reentrant lock that the caller still holds. Never
-- shortens it.
--
-- KEYS[1] the lock
-- ARGV[1] hold id
-- ARGV[2] lease in ms
--
-- 1: the expiry is the longer of what was left and the lease
-- 9: the hold is marked to end by force, and nothing was changed
-- 0: not held by the caller
-- -1: the key is of another kind

if #ARGV[1] == 0 or not whole(ARGV[2], 10) then
  return redis.error_reply('ERR relock: reentrant_renew: bad arguments')
end

local stored = redis.pcall('HMGET', KEYS[1], 'hold')
if stored.err then
  return refused(stored)
end
if stored[1] ~= ARGV[1] then
  if stored[1] == '!' .. ARGV[1] then
    return absent(9)
  end
  return absent(0)
end
lengthen(ARGV[2])
return 1
