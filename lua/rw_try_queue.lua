-- What rw_try.lua does if the lock has an entry or a queue.

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
if may_take(kind, mode, state, permits) then
  return take(ARGV[1], lease, owner, info)
end
local result = rw_hand_off()
if result == 'more' then
  return {4}
end
state = rw_state()
if result == 'through' and compatible(kind, state, permits, 0) then
  return take(ARGV[1], lease, owner, info)
end
return {0}
