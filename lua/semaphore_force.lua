-- End all holds and reservations of a semaphore, hand it off, and notify the
-- former holders. What is kept for a minimum hold stays taken. One call ends
-- 256 holds, the oldest first. The caller then sends the next one.
--
-- KEYS: see semaphore_kind.lua; KEYS[5] the notice,
--   "<hold>,<hold>,... <reason>", which a holder reads when it is refused
-- ARGV[1] reason
-- ARGV[2] of a next call, what the call before it returned. Only the first one
--   ends reservations, of the first 256 entries to end, and notifies.
--
-- 1: done
-- 4: done, but the scan limit was reached before a live waiter
-- 0: the semaphore is free, and this is the first call
-- -1: the key is of another kind
-- text: nothing is handed off yet, since more holds were there when the first
--   call came. It is the number of the newest of them, so that holds of callers
--   that come meanwhile are left alone.

local force_batch = 256

local state, detail = rw_state()
if state == 'error' then
  return detail
end
if state == 'alien' then
  return absent(-1)
end
local newest = ARGV[2]
if state == 'free' then
  if newest then
    return pass_on()
  end
  return absent(0)
end

-- end_reservations removes the reservations among the first entries to end.
-- Others end within their claim timeout.
local function end_reservations()
  for _, entry in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], later, never, 'LIMIT', 0, force_batch)) do
    if string.find(entry, '^v:') then
      redis.call('ZREM', KEYS[1], entry)
    end
  end
end

-- end_holds ends a batch of holds, and returns the first of them. '#<hold>' is
-- of permits in use only, so that no script reads those that are kept.
local function end_holds()
  local names = {}
  local numbers = redis.call('ZREVRANGEBYSCORE', KEYS[1], '(0', newest, 'WITHSCORES', 'LIMIT', 0, force_batch)
  for i = 1, #numbers, 2 do
    local hold = string.sub(numbers[i], 2)
    if #names < batch then
      names[#names + 1] = hold
    end
    leave(hold, numbers[i + 1], now, true)
  end
  return names
end

local function notify(names, left)
  if #names > 0 then
    -- If memory is full, the holders do not learn the reason.
    redis.pcall('SET', KEYS[5], table.concat(names, ',') .. ' ' .. ARGV[1], 'PX', text(math.max(left, 1000)))
  end
  for _, hold in ipairs(names) do
    message(prefix, KEYS[1], string.match(hold, '^[^:]*'), 'forced:' .. hold .. ' ' .. KEYS[1])
  end
end

if newest then
  end_holds()
else
  local left, first = redis.call('PTTL', KEYS[1]), redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', '(0', 'WITHSCORES', 'LIMIT', 0, 1)
  newest = first[2]
  if not newest then
    newest = '-1' -- nobody holds a permit
  end
  end_reservations()
  notify(end_holds(), left)
end
if redis.call('ZCOUNT', KEYS[1], newest, '(0') > 0 then
  return newest
end
return pass_on()
