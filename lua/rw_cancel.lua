-- Remove a waiter from the queue of a read/write lock or a semaphore, and pass
-- on what was meant for it.
--
-- KEYS: see rw.lua
-- ARGV[1] waiter, or "" for none: then what is available of the lock is handed
--   off
-- ARGV[2] 1 to release the waiter's hold as well, 0 for a waiter that may have
--   been granted the lock
--
-- 1: done
-- 9: done; the hold was marked to end by force
-- 4: done, but the scan limit was reached before a live waiter

local hold = string.match(ARGV[1], waiter_name)
if (#ARGV[1] > 0 and not hold) or (ARGV[2] ~= '0' and ARGV[2] ~= '1') then
  return redis.error_reply('ERR relock: rw_cancel: bad arguments')
end

local state, detail = rw_state()
if state == 'error' then
  return detail
end
if hold then
  redis.call('ZREM', KEYS[2], ARGV[1])
end
if state == 'alien' then
  return 1
end
if hold then
  redis.call('ZREM', KEYS[1], 'v:' .. ARGV[1])
  if ARGV[2] == '1' then
    remove('r:' .. hold)
    remove('w:' .. hold)
    local marked = held('!' .. hold)
    if marked then
      remove(marked .. ':!' .. hold)
      pass_on()
      return 9
    end
  end
end
return pass_on()
