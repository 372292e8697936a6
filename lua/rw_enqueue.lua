-- Acquire a read/write lock, or wait in its queue.
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
-- {-1}: the key is of another kind or mode

local client, kind, mode = string.match(ARGV[1], '^([^:]+):%d+:([sw])([fu]):[1-9]%d*$')
local period, lease = whole(ARGV[2], 1), whole(ARGV[5], 10)
if not client or not period or not string.find(ARGV[3], '^%d*$') or ARGV[4] ~= '' or not lease or #ARGV[6] == 0 or not ARGV[7] then
  return redis.error_reply('ERR relock: rw_enqueue: bad arguments')
end
local limit
if ARGV[8] then
  limit = whole(ARGV[8], 1)
  if not limit then
    return redis.error_reply('ERR relock: rw_enqueue: bad arguments')
  end
end
period = period * 1000

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
if end_of('v:' .. ARGV[1]) then
  return take(ARGV[1], lease, ARGV[6], ARGV[7])
end
if may_take(kind, mode, state) then
  return take(ARGV[1], lease, ARGV[6], ARGV[7])
end
if queue_full(limit) then
  local result = rw_hand_off()
  state = rw_state()
  if result == 'through' and compatible(kind, state) then
    return take(ARGV[1], lease, ARGV[6], ARGV[7])
  end
  return {5}
end
local ticket = join_queue(client, period, now)
local result = rw_hand_off(ARGV[1])
if result == 'asker' then
  return take(ARGV[1], lease, ARGV[6], ARGV[7])
end
if result == 'more' then
  return waiting(4, ticket)
end
return waiting(0, ticket)
