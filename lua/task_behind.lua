-- The tasks behind locks are in a set whose scores are all 0, in the order of
-- the lock and the ticket: 4 digits, a lock of that length, the ticket, the id.
-- What comes before the ticket is their place. The heads of paused keys have
-- other places there, see behind_pause.

-- behind_lock returns the place of the tasks of a lock.
local function behind_lock(lock)
  return string.format('%04d', #lock) .. lock
end

-- escaped returns a lock as what is stored of its tasks names it.
local function escape(character)
  return string.format('%%%02X', string.byte(character))
end
local function escaped(lock)
  local name = string.gsub(lock, '[^%w]', escape)
  return name
end

-- first_behind returns the first entries of a place.
local function first_behind(behind, place, count)
  return redis.call('ZRANGE', behind, '[' .. place, '(' .. place .. ':', 'BYLEX', 'LIMIT', '0', count)
end

-- read_behind returns the id and the ticket of an entry, and how often its task
-- was interrupted, or nil if the task was removed: the id may be another one's.
-- It reads no record, which may be large. A task that was received always has
-- attempts, which others may have damaged.
local function read_behind(meta, place, entry)
  local at = 1 + #place
  local ticket, id = string.sub(entry, at, at + 15), string.sub(entry, at + 16)
  local stored = redis.call('HGET', meta, id)
  local attempt, interrupted, _, current = read_meta(stored)
  if stored and (not attempt or current == ticket) then
    return id, ticket, interrupted
  end
  return id, ticket, nil
end

-- promised returns until when somebody waits for a lock, or 0.
local function promised(waits, lock)
  local ends = redis.call('ZSCORE', waits, lock)
  if ends then
    return tonumber(ends)
  end
  return 0
end

-- promise notes that somebody waits for a lock. 0 ms end the promise, also that
-- of others: they make it again when a task comes back to them.
local function promise(waits, lock, ms, now)
  local ends = now + ms * 1000
  if ms > 0 then
    ends = math.max(ends, promised(waits, lock))
  end
  redis.call('ZADD', waits, text(ends), lock)
end

-- give_back makes the tasks of a place due. It returns how many entries it has
-- looked at, and how many tasks are due.
local function give_back(behind, place, count, due, suspect, meta, now)
  local entries, back = first_behind(behind, place, count), 0
  for _, entry in ipairs(entries) do
    local id, ticket, interrupted = read_behind(meta, place, entry)
    if interrupted then
      redis.call('ZADD', due_of(interrupted, due, suspect), due_at(ticket, now), id)
      back = back + 1
    end
  end
  if #entries > 0 then
    redis.call('ZREM', behind, unpack(entries))
  end
  return #entries, back
end
