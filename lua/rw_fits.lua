-- What a read/write lock has in place of semaphore_fits.lua.

-- compatible reports whether a waiter of this kind can have the lock beside its
-- present holders.
local function compatible(kind, state)
  if state == 'free' or (state == 'read' and kind == 's') then
    return true
  end
  return false
end

-- next_end returns the ms after which a waiter should poll.
local function next_end()
  return redis.call('PTTL', KEYS[1])
end
