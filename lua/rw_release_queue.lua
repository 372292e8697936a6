-- What rw_release.lua does if others have the lock or wait for it, or if a
-- level is left.

local state, detail = rw_state()
if state == 'error' then
  return detail
end
if state == 'alien' then
  return absent(-1)
end
local entry, at = held(ARGV[1])
if not entry then
  entry = held('!' .. ARGV[1])
  if not entry then
    return absent(0)
  end
  if reads + writes > 0 then
    return absent(9)
  end
  remove(entry .. ':!' .. ARGV[1])
  pass_on()
  return 9
end
if reads + writes == 0 then
  remove(entry .. ':' .. ARGV[1])
  return pass_on()
end
if seq <= last_change(ARGV[1]) then
  return 1
end
if writes > 0 and entry == 'r' then
  return absent(0)
end
-- ZREM is never refused when memory is full, and lets the next writes pass.
redis.call('ZREM', KEYS[1], '')
redis.call('ZADD', KEYS[1], -seq, '#' .. ARGV[1])
record_levels(ARGV[1], ARGV[2], ARGV[3])
if writes == 0 and entry == 'w' then
  redis.call('ZADD', KEYS[1], text(at), 'r:' .. ARGV[1])
  redis.call('ZREM', KEYS[1], 'w:' .. ARGV[1])
  return pass_on()
end
return 1
