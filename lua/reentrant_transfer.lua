-- Hand a reentrant lock of the caller off to another owner of the same client,
-- or to a new hold of the same owner: the release of one hold and the grant of
-- the next.
--
-- KEYS[1] the lock
-- KEYS[2] the counter of fencing tokens, absent without fencing
-- ARGV[1] id of the hold
-- ARGV[2] its owner
-- ARGV[3] id of the next hold
-- ARGV[4] its owner
-- ARGV[5] lease in ms
-- ARGV[6] info
-- ARGV[7] fencing token of a hold that is resumed: it is kept, no new one is
--   drawn
--
-- 1 or {1, fencing token, set aside}: the lock is the next hold, with a whole
--   lease
-- 0: it is neither hold
-- 9: either is marked to end by force, and nothing was changed
-- 8: the fencing token was never given, and nothing was changed
-- -1: the key is of another kind

if #ARGV[1] == 0 or #ARGV[2] == 0 or #ARGV[3] == 0 or #ARGV[4] == 0 or not whole(ARGV[5], 10) or not ARGV[6] or not may_be_token(ARGV[7], KEYS[2]) then
  return redis.error_reply('ERR relock: reentrant_transfer: bad arguments')
end

-- grant returns the reply if the lock is the next hold.
local function grant()
  if KEYS[2] and not ARGV[7] then
    return {1, token(KEYS[2], 0)}
  end
  return 1
end

local stored = redis.pcall('HMGET', KEYS[1], 'hold')
if stored.err then
  return refused(stored)
end
if stored[1] == ARGV[3] then
  -- An earlier copy of this request did it. The lease starts again.
  lengthen(ARGV[5])
  return grant()
end
if stored[1] == '!' .. ARGV[1] or stored[1] == '!' .. ARGV[3] then
  return absent(9)
end
if stored[1] ~= ARGV[1] then
  return absent(0)
end
if ARGV[7] and not given(KEYS[2], ARGV[7]) then
  return 8
end
local granted = grant() -- if the token is refused, nothing changes
redis.call('HSET', KEYS[1], ARGV[4], '1', 'hold', ARGV[3], 'seq', '#1', 'info', ARGV[6])
if ARGV[2] ~= ARGV[4] then
  redis.call('HDEL', KEYS[1], ARGV[2])
end
redis.call('PEXPIRE', KEYS[1], ARGV[5])
return granted
