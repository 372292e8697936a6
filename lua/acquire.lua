-- Acquire a plain lock that is free, or that has an earlier value of the same
-- call.
--
-- KEYS[1] the lock
-- KEYS[2] the counter of fencing tokens, absent without fencing
-- ARGV[1] value
-- ARGV[2] earlier value whose request is indeterminate, or ""
-- ARGV[3] lease in ms
--
-- 1 or {1, fencing token, set aside}: acquired, with a whole lease
-- 0: held by others
-- {2, ms}: the same; the key is kept for its minimum hold
-- {-1, key}: the key is of another kind, see other_kind.lua

if #ARGV[1] == 0 or not whole(ARGV[3], 10) then
  return redis.error_reply('ERR relock: acquire: bad arguments')
end

-- grant returns the reply to a call that has the lock.
local function grant()
  if KEYS[2] then
    return {1, token(KEYS[2], block)}
  end
  return 1
end

local held = redis.pcall('GET', KEYS[1])
if type(held) == 'table' then
  if string.find(held.err, 'WRONGTYPE', 1, true) then
    return absent({-1, other_kind(KEYS[1])})
  end
  return held
end
if held == ARGV[1] then
  -- An earlier copy of this request acquired it. The lease starts again.
  lengthen(ARGV[3])
  return grant()
end
if held and (held ~= ARGV[2] or #ARGV[2] == 0) then
  if string.sub(held, 1, 11) == 'relock/1|w|' and not string.find(held, ':p', 12, true) then
    return absent({-1, other_kind(KEYS[1])})
  end
  if string.sub(held, 1, 7) == 'relock/' then
    if string.sub(held, 10, 10) == 'k' then
      return {2, redis.call('PTTL', KEYS[1])}
    end
    return 0
  end
  return absent({-1, other_kind(KEYS[1])})
end

-- If the token is refused, there must be no hold.
local granted = grant()
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[3])
return granted
