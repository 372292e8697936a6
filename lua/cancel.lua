-- Remove a waiter from the queue, and pass on what was meant for it.
--
-- KEYS: see queue.lua
-- ARGV[1] waiter, or "" for none: then a free lock is handed off
-- ARGV[2] 1 to release the waiter's hold as well, 0 for a waiter that may have
--   been granted the lock
--
-- 1: done
-- 9: done; the hold was marked to end by force
-- 4: done, but the scan limit was reached before a live waiter

local hold, nonce = string.match(ARGV[1], '^([^:]+:%d+):[pr][fu]:[1-9]%d*(:?%x*)$')
if (#ARGV[1] > 0 and not hold) or (hold and not is_nonce(nonce)) or (ARGV[2] ~= '0' and ARGV[2] ~= '1') then
  return redis.error_reply('ERR relock: cancel: bad arguments')
end

local state, detail = lock_state()
if state == 'error' then
  return detail
end
if hold then
  redis.call('ZREM', KEYS[2], ARGV[1])
end
if hold and ARGV[2] == '1' and state == 'held' and detail == '!' .. hold then
  release()
  return 9
end
if state == 'free' or (state == 'reserved' and detail == ARGV[1]) or (state == 'held' and detail == hold and ARGV[2] == '1') then
  return release()
end
return 1
