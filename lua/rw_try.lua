-- Acquire a read/write lock, to read or to write, or a permit of a semaphore,
-- in one attempt. It overtakes no waiter that has waited for long.
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
-- {9}: an earlier copy acquired it, and that hold is marked to end by force
-- {-1, key}: the key is of another kind, see other_kind.lua

local hold, _, kind, mode, _, permits = string.match(ARGV[1], waiter_name)
local lease, owner, info = whole(ARGV[2], 10), ARGV[3], ARGV[4]
if not hold or not lease or #owner == 0 or not info then
  return redis.error_reply('ERR relock: rw_try: bad arguments')
end

local alone = take_alone(ARGV[1], lease, owner, info)
if alone then
  return alone
end
