-- Acquire a read/write lock, to read or to write, in one attempt. It overtakes
-- no waiter.
--
-- KEYS: see rw.lua; KEYS[5] the counter of fencing tokens, absent without
--   fencing
-- ARGV[1] waiter, which is never queued: it has kind, mode and hold
-- ARGV[2] lease in ms
-- ARGV[3] owner
-- ARGV[4] info
--
-- {1} or {1, fencing token, set aside}: acquired, with a whole lease
-- {0}: held by others
-- {4}: the same; the scan limit was reached
-- {-1}: the key is of another kind or mode

local kind, mode = string.match(ARGV[1], '^[^:]+:%d+:([sw])([fu]):[1-9]%d*$')
local lease = whole(ARGV[2], 10)
if not kind or not lease or #ARGV[3] == 0 or not ARGV[4] then
  return redis.error_reply('ERR relock: rw_try: bad arguments')
end

local state, detail = rw_state()
if state == 'error' then
  return detail
end
if conflicts(mode, state, detail) then
  return {-1}
end
if already_granted(ARGV[1], lease) then
  return grant(KEYS[5], ARGV[1])
end
if may_take(kind, mode, state) then
  return take(ARGV[1], lease, ARGV[3], ARGV[4])
end
local result = rw_hand_off()
if result == 'more' then
  return {4}
end
state = rw_state()
if result == 'through' and compatible(kind, state) then
  return take(ARGV[1], lease, ARGV[3], ARGV[4])
end
return {0}
