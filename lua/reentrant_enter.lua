-- Add a level to a reentrant lock that the caller holds. Never creates the
-- lock.
--
-- KEYS[1] the lock
-- ARGV[1] owner
-- ARGV[2] hold id
-- ARGV[3] levels wanted
-- ARGV[4] number of this change
-- ARGV[5] lease in ms
--
-- 1: the change is applied, or a newer one was
-- 9: the hold is marked to end by force, and nothing was changed
-- 0: not held by the caller
-- -1: the key is of another kind

local seq = whole(ARGV[4], 2)
if #ARGV[1] == 0 or #ARGV[2] == 0 or not whole(ARGV[3], 2) or not seq or not whole(ARGV[5], 10) then
  return redis.error_reply('ERR relock: reentrant_enter: bad arguments')
end

local stored = redis.pcall('HMGET', KEYS[1], 'hold', 'seq')
if stored.err then
  return refused(stored)
end
if stored[1] ~= ARGV[2] then
  if stored[1] == '!' .. ARGV[2] then
    return absent(9)
  end
  return absent(0)
end
local newest = tonumber(string.sub(stored[2], 2))
if seq < newest then
  return 1
end
if seq > newest then
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[3], 'seq', '#' .. ARGV[4])
end
lengthen(ARGV[5])
return 1
