-- Shared by the scripts of a read/write lock, on top of queue.lua: queue,
-- heartbeats and messages are the same. A semaphore shares them too, with
-- semaphore_kind.lua, semaphore_fits.lua and semaphore_fits_beside.lua in place
-- of rw_kind.lua, rw_fits.lua and rw_fits_beside.lua. Their keys:
--
-- KEYS[1] the lock: a sorted set. Each entry ends at its score, a time of the
--   server in us.
--   'r:<hold>' reads. 'w:<hold>' writes, and may read as well. 'v:<waiter>' is
--   a reservation.
--   Besides: '#<hold>', the number of the hold's newest change, below 0; and,
--   for ever, 'relock/1|f' (fair) or 'relock/1|u'. That is the mode of the call
--   that made the key, for people and for clients that mix no modes.
-- KEYS[2] the queue
-- KEYS[3] the heartbeats
-- KEYS[4] for inspection: of each hold '<reads>:<writes>|<info>|<owner>'. No
--   decision depends on it.
--
-- A writer, or a reservation for one, has no other entry beside it, not even an
-- expired one. A waiter is of kind s (shared: it reads) or w (it writes). A
-- script with only the first key has no queue.

-- Above all times.
local never = '9007199254740991'

-- No script reserves the lock for more readers, or removes more expired
-- entries.
local batch = 64

local now = clock()
local later = '(' .. text(now)

-- end_of returns when an entry ends, or nil if it is missing or has ended.
local function end_of(entry)
  local at = redis.call('ZSCORE', KEYS[1], entry)
  if at and tonumber(at) > now then
    return tonumber(at)
  end
  return nil
end

-- held returns 'r' or 'w' and when the hold ends, or nil if there is no such
-- hold.
local function held(hold)
  local at = end_of('w:' .. hold)
  if at then
    return 'w', at
  end
  at = end_of('r:' .. hold)
  if at then
    return 'r', at
  end
  return nil
end

-- last_change returns the number of the newest change of a hold that exists.
local function last_change(hold)
  return -redis.call('ZSCORE', KEYS[1], '#' .. hold)
end

-- delete_lock deletes a lock of which everything has ended.
local function delete_lock()
  redis.pcall('DEL', KEYS[1])
  if KEYS[4] then
    redis.pcall('DEL', KEYS[4])
  end
end

-- rw_state returns what the lock is: 'free', 'read', 'write', 'alien' for a
-- foreign key, or 'error' and the reply; and its mode if it is not free.
local function rw_state()
  local last = redis.pcall('ZRANGE', KEYS[1], -1, -1)
  if last.err then
    if string.find(last.err, 'WRONGTYPE', 1, true) then
      return 'alien', ''
    end
    return 'error', last
  end
  if #last == 0 then
    return 'free', ''
  end
  local mode = string.match(last[1], marked)
  if not mode then
    return 'alien', ''
  end
  local first = redis.call('ZRANGEBYSCORE', KEYS[1], later, never, 'LIMIT', 0, 1)[1]
  if not first then
    delete_lock()
    return 'free', ''
  end
  if string.find(first, '^w:') or string.find(first, '^v:[^:]+:%d+:w') then
    return 'write', mode
  end
  return 'read', mode
end

-- record_levels records how many levels a hold has, for inspection.
local function record_levels(hold, reads, writes)
  if not KEYS[4] then
    return
  end
  local record = redis.pcall('HGET', KEYS[4], hold)
  if type(record) == 'string' then
    redis.pcall('HSET', KEYS[4], hold, reads .. ':' .. writes .. tostring(string.match(record, '|.*$')))
  end
end

-- remove removes an entry, marked or not, and all that is stored about its
-- hold.
local function remove(entry)
  local hold = string.sub(entry, 3)
  redis.call('ZREM', KEYS[1], entry, '#' .. hold)
  if KEYS[4] then
    redis.pcall('HDEL', KEYS[4], (string.gsub(hold, '^!', '')))
  end
end

-- update_expiry removes what has ended, and makes the key expire with its last
-- entry. It returns the ms until then.
local function update_expiry()
  for _, entry in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], 1, text(now), 'LIMIT', 0, batch)) do
    remove(entry)
  end
  local last = redis.call('ZREVRANGEBYSCORE', KEYS[1], never, later, 'WITHSCORES', 'LIMIT', 0, 1)
  if #last == 0 then
    delete_lock()
    return '0'
  end
  local left = text(math.floor((last[2] - now) / 1000) + 2)
  redis.call('PEXPIRE', KEYS[1], left)
  if KEYS[4] then
    redis.pcall('PEXPIRE', KEYS[4], left)
  end
  return left
end

-- extend makes a hold last for at least `lease` ms.
local function extend(hold, entry, at, lease)
  if at < now + lease * 1000 then
    -- ZREM is never refused when memory is full, and lets the ZADD after it
    -- pass.
    redis.call('ZREM', KEYS[1], '')
    redis.call('ZADD', KEYS[1], text(now + lease * 1000), entry .. ':' .. hold)
  end
  update_expiry()
end
