-- What rw_enqueue.lua does if the lock has an entry or a queue.

period = period * 1000

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
  return take(ARGV[1], lease, owner, info)
end
if may_take(kind, mode, state, permits) then
  return take(ARGV[1], lease, owner, info)
end
if queue_full(limit) then
  local result = rw_hand_off()
  state = rw_state()
  if result == 'through' and compatible(kind, state, permits, 0) then
    return take(ARGV[1], lease, owner, info)
  end
  return {5}
end
local ticket = join_queue(client, period, now)
local result = rw_hand_off(ARGV[1])
if result == 'asker' then
  return take(ARGV[1], lease, owner, info)
end
if result == 'more' then
  return waiting(4, ticket)
end
return waiting(0, ticket)
