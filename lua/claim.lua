-- Acquire a lock that was handed off to a waiter.
--
-- KEYS: see queue.lua; KEYS[4] the counter of fencing tokens, absent without
--   fencing. With only the first, the reservation is claimed, or an error says
--   to try again
-- ARGV[1] waiter
-- ARGV[2] lease in ms
-- ARGV[3] value (plain) or owner (reentrant)
-- ARGV[4] info (reentrant), or ""
--
-- {1} or {1, fencing token, set aside}: acquired, with a whole lease
-- {0, ticket, ms until the lock expires, others in the queue}: still waits
-- {2, ...}: still waits; the key is kept for its minimum hold
-- {3}: is not queued, enqueue again
-- {4, ...}: still waits; the lock is free, but the scan limit was reached
--   before this waiter
-- {9}: an earlier copy acquired it, and that hold is marked to end by force
-- {-1, key}: the key is of another kind, see other_kind.lua

local mode, nonce = string.match(ARGV[1], '^[^:]+:%d+:[pr]([fu]):[1-9]%d*(:?%x*)$')
if not mode or not is_nonce(nonce) or not whole(ARGV[2], 10) or #ARGV[3] == 0 or not ARGV[4] then
  return redis.error_reply('ERR relock: claim: bad arguments')
end

local state, detail, kind = lock_state(held)
if state == 'error' then
  return detail
end
if already_granted(ARGV[1], state, detail, ARGV[2]) then
  return grant(KEYS[4], ARGV[1])
end
if state == 'reserved' and detail == ARGV[1] then
  return take(ARGV[1], state, ARGV[2], ARGV[3], ARGV[4])
end
if is_forced(ARGV[1], state, detail) then
  return {9}
end
if conflicts(ARGV[1], state, kind) then
  return {-1, other_kind(KEYS[1])}
end
if #KEYS == 1 then
  return redis.error_reply('TRYAGAIN relock: claim: is not reserved; the queue is elsewhere')
end
local ticket = redis.call('ZSCORE', KEYS[2], ARGV[1])
if state ~= 'free' then
  if ticket then
    -- A replica refuses this write: its data may be old.
    redis.call('ZREM', KEYS[2], '')
    if is_kept(state, detail) then
      return waiting(2, ticket)
    end
    return waiting(0, ticket)
  end
  return {3}
end
if not ticket then
  -- Beyond the scan limit, the waiter's next request goes on.
  hand_off()
  return {3}
end
if may_take(ARGV[1], mode) then
  local granted = take(ARGV[1], state, ARGV[2], ARGV[3], ARGV[4])
  redis.call('ZREM', KEYS[2], ARGV[1])
  return granted
end
local chosen, more = hand_off(ARGV[1])
if chosen == ARGV[1] then
  return take(ARGV[1], state, ARGV[2], ARGV[3], ARGV[4])
end
if more then
  return waiting(4, ticket)
end
return waiting(0, ticket)
