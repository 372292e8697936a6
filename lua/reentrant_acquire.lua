-- Acquire a free reentrant lock: one level for the owner, under a new hold id.
--
-- KEYS[1] the lock
-- KEYS[2] the counter of fencing tokens, absent without fencing
-- ARGV[1] owner
-- ARGV[2] hold id
-- ARGV[3] lease in ms
-- ARGV[4] info
--
-- 1 or {1, fencing token, set aside}: acquired, with a whole lease
-- 0: held by others
-- {2, ms}: the same; the key is kept for its minimum hold
-- {-1, key}: the key is of another kind, see other_kind.lua

if #ARGV[1] == 0 or #ARGV[2] == 0 or not whole(ARGV[3], 10) or not ARGV[4] then
  return redis.error_reply('ERR relock: reentrant_acquire: bad arguments')
end

-- grant returns the reply to a call that has the lock.
local function grant()
  if KEYS[2] then
    return {1, token(KEYS[2], 0)}
  end
  return 1
end

if redis.call('EXISTS', KEYS[1]) == 1 then
  local stored = redis.pcall('HMGET', KEYS[1], 'hold')
  if stored.err then
    local value = redis.pcall('GET', KEYS[1])
    if type(value) == 'string' and string.find(value, '^relock/1|w|.*:r[fu]:') then
      return absent(0)
    end
    if type(value) == 'table' and not string.find(value.err, 'WRONGTYPE', 1, true) then
      return value
    end
    if string.find(stored.err, 'WRONGTYPE', 1, true) then
      return absent({-1, other_kind(KEYS[1])})
    end
    return stored
  end
  if not stored[1] then
    return absent({-1, other_kind(KEYS[1])})
  end
  if stored[1] ~= ARGV[2] then
    if string.sub(stored[1], 1, 5) == 'kept:' then
      return {2, redis.call('PTTL', KEYS[1])}
    end
    return 0
  end
  -- An earlier copy of this request acquired it. The lease starts again.
  lengthen(ARGV[3])
  return grant()
end

-- If the token is refused, there must be no hold.
local granted = grant()
redis.call('HSET', KEYS[1], ARGV[1], '1', 'hold', ARGV[2], 'seq', '#1', 'info', ARGV[4])
local set = redis.pcall('PEXPIRE', KEYS[1], ARGV[3])
if type(set) == 'table' then
  -- Permission denied. Without an expiry the lock would stay for ever. So it is
  -- deleted, or replaced by a key that expires.
  local deleted = redis.pcall('DEL', KEYS[1])
  if type(deleted) == 'table' then
    redis.pcall('SET', KEYS[1], 'relock/1|denied', 'PX', ARGV[3])
  end
  return set
end
return granted
