-- Shared by the scripts of a read/write lock or a semaphore that acquire it or
-- hand it off.

-- What each client's heartbeat says, see liveness.
local liveness_of = {}

-- Clients that were notified of one waiter, with their other waiters to be
-- notified: a client gets one message for all of those.
local notified = {}

local prefix = string.match(KEYS[1], '^[^{]*')

-- The lock is reserved for up to this many readers in one script.
local reader_batch = batch

local function is_alive(client)
  if not liveness_of[client] then
    local stored = redis.call('HMGET', KEYS[3], client, 'a')
    liveness_of[client] = liveness(stored[1], stored[2], now)
  end
  return liveness_of[client] ~= 'stale'
end

-- examine decides on the first waiter of the queue, while the lock is free or
-- read, and is reserved for `added` others by this script. 'asker': it is the
-- one that asks. 'gone': its client is dead. 'stopped': it must wait on.
-- Otherwise it returns the waiter's kind, claim timeout and mode: it was
-- notified that the lock is reserved.
local function examine(waiter, asker, state, added)
  local _, client, kind, mode, claim, permits = string.match(waiter, waiter_name)
  if not client or #claim > 15 then
    return 'gone'
  end
  if waiter ~= asker and not is_alive(client) then
    return 'gone'
  end
  if not compatible(kind, state, permits, added) then
    return 'stopped'
  end
  if waiter == asker then
    return 'asker'
  end
  if notified[client] then
    table.insert(notified[client], waiter)
    return kind, claim, mode
  end
  local receivers = message(prefix, KEYS[1], client, waiter .. ' ' .. KEYS[1])
  if receivers == 0 and is_gone(mode, liveness_of[client]) then
    liveness_of[client] = 'stale'
    return 'gone'
  end
  notified[client] = {}
  return kind, claim, mode
end

-- reserve reserves the lock for waiters, as pairs of a time and an entry.
local function reserve(pairs_of, mode)
  if redis.call('EXISTS', KEYS[1]) == 0 then
    -- This has no effect, but it fails if PEXPIRE is denied. Then there must be
    -- no lock, which would stay for ever.
    redis.call('PEXPIRE', KEYS[1], 1)
  end
  redis.call('ZADD', KEYS[1], 'inf', marker .. mode, unpack(pairs_of))
  update_expiry()
  for client, waiters in pairs(notified) do
    if #waiters > 0 then
      message(prefix, KEYS[1], client, table.concat(waiters, ',') .. ' ' .. KEYS[1])
      notified[client] = {}
    end
  end
end

-- rw_hand_off hands what is available of the lock to the first waiters whose
-- clients are alive: one writer, or readers in a row. For the asker nothing is
-- reserved: it acquires the lock. Waiters of dead clients are removed. If a
-- client is alive after all, its poll restores them. It returns 'asker';
-- 'stopped' if a live waiter comes first; 'through' if none does; 'more' if the
-- scan limit was reached. It also returns the waiters for which the lock is
-- reserved now.
local function rw_hand_off(asker)
  local state, mode = rw_state()
  local result, passed, names, entries = 'through', 0, {}, {}
  if state ~= 'free' and state ~= 'read' then
    return 'stopped', names
  end
  -- Usually the first waiter decides, and no more need be read.
  for _, last in ipairs({0, scan_limit - 1}) do
    for _, waiter in ipairs(redis.call('ZRANGE', KEYS[2], passed, last)) do
      local what, claim, own = examine(waiter, asker, state, #names)
      if what == 'stopped' then
        result = what
        break
      end
      passed = passed + 1
      if what == 'asker' then
        result = what
        break
      end
      if what ~= 'gone' then
        names[#names + 1] = waiter
        entries[#entries + 1] = text(now + claim * 1000)
        entries[#entries + 1] = 'v:' .. waiter
        state = 'read'
        if mode == '' then
          mode = own
        end
        if what == 'w' or #names == reader_batch then
          result = 'stopped'
          break
        end
      end
    end
    if result ~= 'through' then
      break
    end
  end
  if #names > 0 then
    reserve(entries, mode)
  end
  if passed > 0 then
    redis.call('ZREMRANGEBYRANK', KEYS[2], 0, passed - 1)
    if redis.call('EXISTS', KEYS[2]) == 0 then
      redis.call('DEL', KEYS[3])
    elseif result == 'through' then
      result = 'more'
    end
  end
  return result, names
end

-- pass_on hands off what has become free, whatever happens to the queue. It
-- returns 1, or 4 if the scan limit was reached: then a cancel without a waiter
-- continues.
local function pass_on()
  pcall(update_expiry)
  if #KEYS == 1 then
    return 1
  end
  local done, result = pcall(rw_hand_off)
  if done and result == 'more' then
    return 4
  end
  return 1
end
