-- End what has a plain or a reentrant lock, after its holder has acknowledged
-- it, or look what that is. The hold is marked: '!' stands in front of its id,
-- so that nothing extends it. Its holder's client then releases it. See
-- docs/internals/force-design.md.
--
-- KEYS: see queue.lua; KEYS[4] the notice: a hash with the reason for each hold
--   that is or was to end by force
-- ARGV[1] 'look', 'end', or 'free' to wait for no acknowledgement
-- ARGV[2] reason; "" to look
-- ARGV[3], ... what to end, as a look has named it; 256 names at most
--
-- look, {1, "", name}: a hold's id, 'kept:<hold>', or a waiter's name
-- look, 0: the lock is free
-- end, {left, ms, handed, gone}: how many of the names are still there; after
--   how many ms the last one ends, -1 for never; 1, or 4 if the lock was handed
--   off and the scan limit was reached before a live waiter; of how many
--   waiters the reservation has gone before
-- -1: the key is of another kind

if (ARGV[1] ~= 'look' and ARGV[1] ~= 'end' and ARGV[1] ~= 'free') or not ARGV[2] or #ARGV > 258 then
  return redis.error_reply('ERR relock: end: bad arguments')
end

local state, detail, kind = lock_state()
if state == 'error' then
  return detail
end
if state == 'alien' then
  return absent(-1)
end

-- read returns the name of what has the lock, whether it is marked, and its
-- value if that is a string.
local function read()
  local value = redis.pcall('GET', KEYS[1])
  if type(value) ~= 'string' then
    value = nil
  end
  if state == 'reserved' then
    return detail, false, value
  end
  if #detail == 0 then
    local hold = string.match(value, '^relock/1|k|([^|]*)')
    if hold then
      return 'kept:' .. hold, false, value
    end
    return value, false, value
  end
  local hold = string.match(detail, '^!(.*)$')
  if hold then
    return hold, true, value
  end
  return detail, false, value
end

-- look_up reports whether something is to end, and counts the other waiters
-- that were to.
local function look_up(name)
  local named, gone = false, 0
  for i = 3, #ARGV do
    if ARGV[i] == name then
      named = true
    elseif string.find(ARGV[i], '^[^:]+:%d+:') then
      gone = gone + 1
    end
  end
  return named, gone
end

-- client_of returns the client that can acknowledge the end of a hold, or nil.
-- A detached hold, whose id begins with ':', has none. A waiter whose name has
-- a nonce may hold the lock before it claims it.
local function client_of(name, value)
  if state == 'reserved' then
    return string.match(name, '^([^:]+):%d+:[pr][fu]:[1-9]%d*:%x+$')
  end
  if #kind == 0 or string.find(name, '^:') or string.find(name, '^kept:') then
    return nil
  end
  if value then
    return string.match(value, '^relock/1|%l|[^|]*|([^|]*)|')
  end
  return string.match(tostring(redis.call('HGET', KEYS[1], 'info')), '^relock/1|%l|([^|]*)|')
end

-- notify leaves the reason, and a message for the holder's client. A detached
-- hold has none, but somebody may try to resume it. If memory is full, nobody
-- learns the reason.
local function notify(hold, client, left)
  if left < 0 then
    left = 120000 -- without an expiry, its client learns of it within a minute
  end
  redis.pcall('HSET', KEYS[4], hold, ARGV[2])
  redis.pcall('PEXPIRE', KEYS[4], text(math.max(redis.call('PTTL', KEYS[4]), left, 1000)))
  if client then
    message(string.match(KEYS[1], '^[^{]*'), KEYS[1], client, 'forced:' .. hold .. ' ' .. KEYS[1])
  end
end

-- mark marks a hold. PEXPIRE runs first: a key that is about to expire must not
-- get a value without an expiry. It also lets the write pass if memory is full.
local function mark(hold, value, left)
  if left >= 0 then
    left = math.max(left, 1)
    redis.call('PEXPIRE', KEYS[1], text(left))
  end
  if not value then
    redis.call('HSET', KEYS[1], 'hold', '!' .. hold)
  else
    redis.call('SET', KEYS[1], (string.gsub(value, '^(relock/1|%l|)', '%1!')))
  end
  if left >= 0 then
    redis.call('PEXPIRE', KEYS[1], text(left))
  end
end

if state == 'free' then
  if ARGV[1] == 'look' then
    return absent(0)
  end
  local _, gone = look_up('')
  return {0, 0, release(), gone}
end
local name, marked, value = read()
if ARGV[1] == 'look' then
  return absent({1, '', name})
end
local named, gone = look_up(name)
if not named then
  return absent({0, 0, 1, gone})
end
local client, left = client_of(name, value), redis.call('PTTL', KEYS[1])
if ARGV[1] == 'free' or not client then
  if client or string.find(name, '^:') then
    notify(name, client, left)
  end
  return {0, 0, release(), gone}
end
if marked or state == 'reserved' then
  return absent({1, left, 1, gone})
end
mark(name, value, left)
notify(name, client, left)
return {1, left, 1, gone}
