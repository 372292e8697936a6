-- Acquire a read/write lock or a permit, or wait in the queue.
--
-- KEYS: see rw.lua; KEYS[5] the counter of fencing tokens, absent without
--   fencing
-- ARGV[1] waiter
-- ARGV[2] period of its client's heartbeats in ms
-- ARGV[3] its ticket, "" if it has none yet
-- ARGV[4] ""
-- ARGV[5] lease in ms
-- ARGV[6] owner
-- ARGV[7] info
-- ARGV[8] how many may wait; absent without a limit
--
-- {1} or {1, fencing token, set aside}: acquired, with a whole lease
-- {0, ticket, ms until the lock expires, others in the queue}: waits
-- {4, ...}: waits; the scan limit was reached before this waiter
-- {5}: the queue is full
-- {9}: an earlier copy acquired it, and that hold is marked to end by force
-- {-1, key}: the key is of another kind, see other_kind.lua

local hold, client, kind, mode, _, permits = string.match(ARGV[1], waiter_name)
local period, lease, owner, info = whole(ARGV[2], 1), whole(ARGV[5], 10), ARGV[6], ARGV[7]
if not hold or not period or not string.find(ARGV[3], '^%d*$') or ARGV[4] ~= '' or not lease or #owner == 0 or not info then
  return redis.error_reply('ERR relock: rw_enqueue: bad arguments')
end
local limit
if ARGV[8] then
  limit = whole(ARGV[8], 1)
  if not limit then
    return redis.error_reply('ERR relock: rw_enqueue: bad arguments')
  end
end
local alone = take_alone(ARGV[1], lease, owner, info)
if alone then
  return alone
end
