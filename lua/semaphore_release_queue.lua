-- What semaphore_release.lua does if others wait, or if the caller has no
-- permit.

local state, detail = rw_state()
if state == 'error' then
  return detail
end
if state == 'alien' then
  return absent(-1)
end
if not held(ARGV[1]) then
  if held('!' .. ARGV[1]) then
    leave('!' .. ARGV[1], redis.call('ZSCORE', KEYS[1], '#!' .. ARGV[1]), now, true)
    pass_on()
    return 9
  end
  if end_of('k:' .. ARGV[1]) then
    return 2
  end
  return absent(0)
end
if leave(ARGV[1], redis.call('ZSCORE', KEYS[1], '#' .. ARGV[1]), now) == 2 then
  pcall(update_expiry)
  return 2
end
return pass_on()
