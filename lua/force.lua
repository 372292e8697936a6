-- End a hold or a reservation, hand the lock off, and notify the former holder.
--
-- KEYS: see queue.lua; KEYS[4] the notice, "<hold or waiter> <reason>", which
--   the holder reads when it is refused
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

-- former_holder returns the id of the hold, and the client that has it. A
-- waiter whose name has a nonce may hold the lock before it claims it. Its name
-- stands for that hold: one that it takes later may have the same id.
local function former_holder()
  if state == 'reserved' then
    return string.match(detail, '^(([^:]+):%d+:[pr][fu]:[1-9]%d*:%x+)$')
  end
  if #detail == 0 then
    return nil
  end
  local value = redis.pcall('GET', KEYS[1])
  if type(value) == 'string' then
    return detail, string.match(value, '^relock/1|%l|[^|]*|([^|]*)|')
  end
  return detail, string.match(tostring(redis.call('HGET', KEYS[1], 'info')), '^relock/1|%l|([^|]*)|')
end

local hold, client = former_holder()
if hold then
  local left = redis.call('PTTL', KEYS[1])
  -- If memory is full, the holder does not learn the reason.
  redis.pcall('SET', KEYS[4], hold .. ' ' .. ARGV[1], 'PX', text(math.max(left, 1000)))
  if client then
    message(string.match(KEYS[1], '^[^{]*'), KEYS[1], client, 'forced:' .. hold .. ' ' .. KEYS[1])
  end
end
return release()
