-- Acquire a free lock, or wait in its queue.
--
-- KEYS: see queue.lua; KEYS[4] the counter of fencing tokens, absent without
--   fencing
-- ARGV[1] waiter
-- ARGV[2] period of its client's heartbeats in ms
-- ARGV[3] its ticket, "" if it has none yet
-- ARGV[4] id of an earlier hold of the same call that may have the lock, or ""
-- ARGV[5] lease in ms
-- ARGV[6] value (plain) or owner (reentrant)
-- ARGV[7] info (reentrant), or ""
-- ARGV[8] how many may wait; absent without a limit
--
-- {1} or {1, fencing token, set aside}: acquired, with a whole lease
-- {0, ticket, ms until the lock expires, others in the queue}: waits
-- {2, ...}: waits; the key is kept for its minimum hold
-- {4, ...}: waits; the lock is free, but the scan limit was reached before this
--   waiter
-- {5}: the queue is full
-- {9}: an earlier copy acquired it, and that hold is marked to end by force
-- {-1, key}: the key is of another kind, see other_kind.lua

local client, mode, nonce = string.match(ARGV[1], '^([^:]+):%d+:[pr]([fu]):[1-9]%d*(:?%x*)$')
local period = whole(ARGV[2], 1)
if not client or not is_nonce(nonce) or not period or not string.find(ARGV[3], '^%d*$') or not whole(ARGV[5], 10) or #ARGV[6] == 0 or not ARGV[7] then
  return redis.error_reply('ERR relock: enqueue: bad arguments')
end
local limit
if ARGV[8] then
  limit = whole(ARGV[8], 1)
  if not limit then
    return redis.error_reply('ERR relock: enqueue: bad arguments')
  end
end
period = period * 1000

local state, detail, kind = lock_state()
if state == 'error' then
  return detail
end
if already_granted(ARGV[1], state, detail, ARGV[5]) then
  return grant(KEYS[4], ARGV[1])
end
if is_forced(ARGV[1], state, detail) then
  return {9}
end
if conflicts(ARGV[1], state, kind) then
  return {-1, other_kind(KEYS[1])}
end
if (state == 'reserved' and detail == ARGV[1]) or (state == 'held' and #ARGV[4] > 0 and detail == ARGV[4]) then
  return take(ARGV[1], state, ARGV[5], ARGV[6], ARGV[7])
end
if state ~= 'free' then
  if queue_full(limit) then
    return {5}
  end
  local ticket, others = join_queue(client, period, clock())
  if is_kept(state, detail) then
    return waiting(2, ticket, others)
  end
  return waiting(0, ticket, others)
end
if may_take(ARGV[1], mode) then
  local granted = take(ARGV[1], state, ARGV[5], ARGV[6], ARGV[7])
  if #ARGV[3] > 0 then
    redis.call('ZREM', KEYS[2], ARGV[1])
  end
  return granted
end
if queue_full(limit) then
  local chosen, more = hand_off()
  if chosen or more then
    return {5}
  end
  return take(ARGV[1], state, ARGV[5], ARGV[6], ARGV[7])
end
local ticket = join_queue(client, period, clock())
local chosen, more = hand_off(ARGV[1])
if chosen == ARGV[1] then
  return take(ARGV[1], state, ARGV[5], ARGV[6], ARGV[7])
end
if more then
  return waiting(4, ticket)
end
return waiting(0, ticket)
