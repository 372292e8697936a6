-- Give a plain lock to another hold: it is detached, or resumed.
--
-- KEYS[1] the lock
-- KEYS[2] the counter of fencing tokens, only with ARGV[4]
-- ARGV[1] what the value of the hold begins with, to its id
-- ARGV[2] value of the next hold
-- ARGV[3] ms until the key expires
-- ARGV[4] fencing token of a hold that is resumed, absent without fencing
--
-- 1: the lock is the next hold
-- 0: it is neither hold
-- 9: either is marked to end by force, and nothing was changed
-- 8: the fencing token was never given, and nothing was changed
-- -1: the key is of another kind

if #ARGV[1] == 0 or #ARGV[2] == 0 or not whole(ARGV[3], 10) or not may_be_token(ARGV[4], KEYS[2]) then
  return redis.error_reply('ERR relock: transfer: bad arguments')
end

local held = redis.pcall('GET', KEYS[1])
if type(held) == 'table' then
  return refused(held)
end
if held == ARGV[2] then
  -- An earlier copy of this request did it.
  lengthen(ARGV[3])
  return 1
end
local forced = unmarked(held)
if forced and (forced == ARGV[2] or string.sub(forced, 1, #ARGV[1]) == ARGV[1]) then
  return absent(9)
end
if not held or string.sub(held, 1, #ARGV[1]) ~= ARGV[1] then
  return absent(0)
end
if ARGV[4] and not given(KEYS[2], ARGV[4]) then
  return 8
end
-- PEXPIRE is never refused when memory is full, and lets the SET after it pass.
redis.call('PEXPIRE', KEYS[1], ARGV[3])
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1
