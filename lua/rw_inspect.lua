-- Say what a read/write lock is, and who waits for it. Takes away a lock of which everything has ended; else it writes nothing.
--
-- KEYS    see rw.lua
--
-- {state, mode, server's time in us, ms until the lock ends by itself, how many wait, the first waits with their tickets, the first entries,
-- what is noted of each, or nil}: state and mode as view says

local state, mode = view()
if state == 'error' then
  return mode
end
local entries, notes = {}, {}
if state == 'read' or state == 'write' then
  entries = redis.call('ZRANGEBYSCORE', KEYS[1], later, never, 'LIMIT', 0, most)
  local names = {}
  for i = 1, #entries do
    names[i] = string.sub(entries[i], 3)
  end
  notes = redis.call('HMGET', KEYS[4], unpack(names))
end
return {
  state, mode, text(now), redis.call('PTTL', KEYS[1]), redis.call('ZCARD', KEYS[2]),
  redis.call('ZRANGE', KEYS[2], 0, most - 1, 'WITHSCORES'), entries, notes
}
