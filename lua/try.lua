-- Acquire a lock that has a queue, in one attempt. It overtakes no waiter.
--
-- KEYS: see queue.lua; KEYS[4] the counter of fencing tokens, absent without
--   fencing
-- ARGV[1] waiter, which is never queued: it has kind, mode and hold
-- ARGV[2] lease in ms
-- ARGV[3] value (plain) or owner (reentrant)
-- ARGV[4] info (reentrant), or ""
--
-- {1} or {1, fencing token, set aside}: acquired, with a whole lease
-- {0}: held by others
-- {2, ms}: the same; the key is kept for its minimum hold
-- {4}: the same; the lock is free, but the scan limit was reached
-- {9}: an earlier copy acquired it, and that hold is marked to end by force
-- {-1, key}: the key is of another kind, see other_kind.lua

if not string.match(ARGV[1], '^[^:]+:%d+:[pr][fu]:[1-9]%d*$') or not whole(ARGV[2], 10) or #ARGV[3] == 0 or not ARGV[4] then
  return redis.error_reply('ERR relock: try: bad arguments')
end

local state, detail, kind = lock_state()
if state == 'error' then
  return detail
end
if already_granted(ARGV[1], state, detail, ARGV[2]) then
  return grant(KEYS[4], ARGV[1])
end
if is_forced(ARGV[1], state, detail) then
  return {9}
end
if conflicts(ARGV[1], state, kind) then
  return {-1, other_kind(KEYS[1])}
end
if is_kept(state, detail) then
  return {2, redis.call('PTTL', KEYS[1])}
end
if state ~= 'free' then
  return {0}
end
if redis.call('EXISTS', KEYS[2]) == 0 then
  return take(ARGV[1], state, ARGV[2], ARGV[3], ARGV[4])
end
local chosen, more = hand_off()
if more then
  return {4}
end
if chosen then
  return {0}
end
return take(ARGV[1], state, ARGV[2], ARGV[3], ARGV[4])
