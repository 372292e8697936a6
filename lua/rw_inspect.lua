-- Return the state of a read/write lock or a semaphore, and its waiters.
-- Deletes a lock of which everything has ended. Otherwise it writes nothing.
--
-- KEYS: see rw.lua
--
-- {state, mode, server's time in us, ms until the lock expires, number of
--   waiters, the first waiters with their tickets, the first entries, what is
--   recorded of each, or nil}: state and mode as in rw_state

local state, mode = rw_state()
if state == 'error' then
  return mode
end
local entries, notes = {}, {}
if state == 'read' or state == 'write' then
  entries = redis.call('ZRANGEBYSCORE', KEYS[1], later, never, 'LIMIT', 0, scan_limit)
  local names = {}
  for i = 1, #entries do
    names[i] = string.gsub(string.sub(entries[i], 3), '^!', '')
  end
  notes = redis.call('HMGET', KEYS[4], unpack(names))
end
return {
  state, mode, text(now), redis.call('PTTL', KEYS[1]), redis.call('ZCARD', KEYS[2]),
  redis.call('ZRANGE', KEYS[2], 0, scan_limit - 1, 'WITHSCORES'), entries, notes
}
