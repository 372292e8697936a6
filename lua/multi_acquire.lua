-- Acquire several plain locks: all of them, or none.
--
-- KEYS: if the call was handed one of the locks, that lock, its queue and its
--   heartbeats, see queue.lua. Then the locks, 1 to 100. Then their counters of
--   fencing tokens, absent without fencing.
-- ARGV[1] value
-- ARGV[2] lease in ms
-- ARGV[3] number of the lock that the call was handed, 0 for none
-- ARGV[4] its value, or ""
-- ARGV[5] how many locks
-- ARGV[6] value of the locks that the call keeps, or of an earlier try that is
--   being released, or ""
-- ARGV[7] ms to keep the locks before one that is held, 0 for none
--
-- {1} or {1, fencing token}: all are acquired, with a whole lease
-- {0, n, handed}: the n-th is held by others; the ones before it are kept under
--   the value, if that was requested, and no other was acquired
-- {2, n, handed, ms}: the same; the n-th is kept for its minimum hold
-- {-1, n, handed, key}: the n-th is of another kind, see other_kind.lua
--
-- If the call is refused and still has the lock that it was handed, that lock
-- is handed off, unless it is kept. Then `handed` is the reply of release: 4 if
-- the scan limit was reached before a live waiter. Otherwise it is 0. A lock
-- that is kept is no hold. One that is marked to end by force is held by
-- others. The caller releases what it kept behind the n-th lock.

local lease, own, locks, keep = whole(ARGV[2], 10), whole(ARGV[3], 0), whole(ARGV[5], 1), whole(ARGV[7], 0)
if #ARGV[1] == 0 or not lease or not own or not locks or not keep or locks > 100 or own > locks or (own > 0 and #ARGV[4] == 0) then
  return redis.error_reply('ERR relock: multi_acquire: bad arguments')
end
local before = 0 -- keys ahead of the locks
if own > 0 then
  before = 3
end
if #KEYS ~= before + locks and #KEYS ~= before + 2 * locks then
  return redis.error_reply('ERR relock: multi_acquire: bad keys')
end

-- Two commands for all keys: a key that exists without being a string is of
-- another kind.
local values, strings = redis.call('MGET', unpack(KEYS, before + 1, before + locks)), 0
for i = 1, locks do
  if values[i] then
    strings = strings + 1
  end
end
local odd = redis.call('EXISTS', unpack(KEYS, before + 1, before + locks)) > strings

-- ours reports whether the call may have the i-th lock: it is free, or the call
-- has it.
local function ours(i)
  local held = values[i]
  if not held or held == ARGV[1] or (i == own and held == ARGV[4]) or (#held > 0 and held == ARGV[6]) then
    return true
  end
  return false
end

-- take sets the first `count` locks to the value, for `ms`.
local function take(count, ms)
  local length = text(ms)
  for i = 1, count do
    if values[i] ~= ARGV[1] then
      redis.call('SET', KEYS[before + i], ARGV[1], 'PX', length)
    else
      -- An earlier copy of this request acquired it. The lease starts again and
      -- is never shortened. This is always a write, see lengthen.lua.
      redis.call('PEXPIRE', KEYS[before + i], text(math.max(redis.call('PTTL', KEYS[before + i]), ms)))
    end
  end
end

-- refuse returns the reply when the n-th lock is not available. It keeps the
-- locks before it if that was requested. Otherwise it hands off the one that
-- the call was handed, so that no second request is needed for it.
local function refuse(code, n, found)
  local kept, handed = 0, 0
  if code ~= -1 and keep > 0 then
    kept = n - 1
    take(kept, keep)
  end
  if own > kept and (values[own] == ARGV[4] or unmarked(values[own]) == ARGV[4]) then
    handed = release()
  end
  return {code, n, handed, found}
end

for i = 1, locks do
  local held = values[i]
  if odd and not held and redis.call('EXISTS', KEYS[before + i]) == 1 then
    return refuse(-1, i, other_kind(KEYS[before + i]))
  end
  if not ours(i) then
    if string.sub(held, 1, 11) == 'relock/1|w|' and not string.find(held, ':p', 12, true) then
      return refuse(-1, i, other_kind(KEYS[before + i]))
    end
    if string.sub(held, 1, 7) == 'relock/' then
      if string.sub(held, 10, 10) == 'k' then
        return refuse(2, i, redis.call('PTTL', KEYS[before + i]))
      end
      return refuse(0, i)
    end
    return refuse(-1, i, other_kind(KEYS[before + i]))
  end
end

-- One token for all, above those that were drawn for any of them. If it is
-- refused, there must be no hold.
local granted = {1}
if #KEYS > before + locks then
  local t = redis.call('TIME')
  local drawn = t[1] * 1000000 + t[2]
  local lasts, counters = redis.call('MGET', unpack(KEYS, before + locks + 1)), 0
  for i = 1, locks do
    if lasts[i] then
      counters = counters + 1
    end
  end
  if redis.call('EXISTS', unpack(KEYS, before + locks + 1)) > counters then
    return redis.error_reply('WRONGTYPE relock: multi_acquire: the counter of fencing tokens of a lock is something else')
  end
  for i = 1, locks do
    local last = tonumber(lasts[i])
    if last and last >= drawn then
      drawn = last + 1
    end
  end
  local token = text(drawn)
  granted[2] = token
  for i = before + locks + 1, #KEYS do
    redis.call('SET', KEYS[i], token, 'PX', '2592000000')
  end
end

take(locks, lease)
return granted
