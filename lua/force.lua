-- End a hold or a reservation, hand the lock off, and notify the former holder.
--
-- KEYS: see queue.lua; KEYS[4] the notice, "<hold> <reason>", which the holder
--   reads when it is refused
-- ARGV[1] reason
--
-- 1: done
-- 4: done, but the scan limit was reached before a live waiter
-- 0: the lock is free
-- -1: the key is of another kind

local state, detail = lock_state()
if state == 'error' then
  return detail
end
if state == 'alien' then
  return absent(-1)
end
if state == 'free' then
  return absent(0)
end
if state == 'held' and #detail > 0 then
  local left = redis.call('PTTL', KEYS[1])
  -- If memory is full, the holder does not learn the reason.
  redis.pcall('SET', KEYS[4], detail .. ' ' .. ARGV[1], 'PX', text(math.max(left, 1000)))
  local value = redis.pcall('GET', KEYS[1])
  local client = ''
  if type(value) == 'string' then
    client = string.match(value, '^relock/1|%l|[^|]*|([^|]*)|')
  else
    client = string.match(tostring(redis.call('HGET', KEYS[1], 'info')), '^relock/1|%l|([^|]*)|')
  end
  if client then
    redis.pcall('PUBLISH', string.match(KEYS[1], '^[^{]*') .. client, 'forced:' .. detail .. ' ' .. KEYS[1])
  end
end
return release()
