-- Return the state of a lock and its waiters. Writes nothing.
--
-- KEYS: see queue.lua; KEYS[4] the counter of fencing tokens
--
-- {state, content, ms until the lock expires, last fencing token or "false",
--   server's time in us, number of waiters, the first waiters with their
--   tickets}: state as in lock_state; content is a string, or the fields of a
--   hash

local state, detail = lock_state()
if state == 'error' then
  return detail
end
local content = ''
if state ~= 'alien' then
  content = redis.pcall('GET', KEYS[1])
  if not content then
    content = ''
  end
  if type(content) == 'table' then
    content = redis.call('HGETALL', KEYS[1])
  end
end
return {
  state, content, redis.call('PTTL', KEYS[1]), tostring(redis.call('GET', KEYS[4])), text(clock()), redis.call('ZCARD', KEYS[2]),
  redis.call('ZRANGE', KEYS[2], 0, scan_limit - 1, 'WITHSCORES')
}
