-- Acquire a read/write lock or a permit that was handed off to a waiter.
--
-- KEYS: see rw.lua; KEYS[5] the counter of fencing tokens, absent without
--   fencing
-- ARGV[1] waiter
-- ARGV[2] lease in ms
-- ARGV[3] owner
-- ARGV[4] info
--
-- {1} or {1, fencing token, set aside}: acquired, with a whole lease
-- {0, ticket, ms until the lock expires, others in the queue}: still waits
-- {3}: is not queued, enqueue again
-- {4, ...}: still waits; the scan limit was reached before this waiter
-- {9}: an earlier copy acquired it, and that hold is marked to end by force
-- {-1, key}: the key is of another kind, see other_kind.lua

local hold = string.match(ARGV[1], waiter_name)
local lease = whole(ARGV[2], 10)
if not hold or not lease or #ARGV[3] == 0 or not ARGV[4] then
  return redis.error_reply('ERR relock: rw_claim: bad arguments')
end

local state, detail = rw_state()
if state == 'error' then
  return detail
end
if state == 'alien' then
  return {-1, other_kind(KEYS[1])}
end
if already_granted(ARGV[1], lease) then
  return grant(KEYS[5], ARGV[1])
end
if is_forced(ARGV[1]) then
  return {9}
end
if end_of('v:' .. ARGV[1]) then
  return take(ARGV[1], lease, ARGV[3], ARGV[4])
end
local ticket = redis.call('ZSCORE', KEYS[2], ARGV[1])
if not ticket then
  -- Beyond the scan limit, the waiter's next request goes on.
  rw_hand_off()
  return {3}
end
-- A replica refuses this write: its data may be old.
redis.call('ZREM', KEYS[2], '')
local result = rw_hand_off(ARGV[1])
if result == 'asker' then
  return take(ARGV[1], lease, ARGV[3], ARGV[4])
end
if result == 'more' then
  return waiting(4, ticket)
end
return waiting(0, ticket)
