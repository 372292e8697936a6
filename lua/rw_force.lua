-- End all holds and reservations of a read/write lock, hand it off, and notify
-- the former holders.
--
-- KEYS: see rw.lua; KEYS[5] the notice, "<hold>,<hold>,... <reason>", which a
--   holder reads when it is refused
-- ARGV[1] reason
--
-- 1: done
-- 4: done, but the scan limit was reached before a live waiter
-- 0: the lock is free
-- -1: the key is of another kind

local state, detail = rw_state()
if state == 'error' then
  return detail
end
if state == 'alien' then
  return absent(-1)
end
if state == 'free' then
  return absent(0)
end
local holds = {}
for _, entry in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], later, never, 'LIMIT', 0, batch)) do
  if not string.find(entry, '^v:') then
    holds[#holds + 1] = string.sub(entry, 3)
  end
end
local left = redis.call('PTTL', KEYS[1])
redis.call('DEL', KEYS[1])
redis.pcall('DEL', KEYS[4])
if #holds > 0 then
  -- If memory is full, the holders do not learn the reason.
  redis.pcall('SET', KEYS[5], table.concat(holds, ',') .. ' ' .. ARGV[1], 'PX', text(math.max(left, 1000)))
end
for _, hold in ipairs(holds) do
  message(prefix, KEYS[1], string.match(hold, '^[^:]*'), 'forced:' .. hold .. ' ' .. KEYS[1])
end
return pass_on()
