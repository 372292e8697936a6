-- Take a wait out of the queue of a read/write lock, and pass on what was meant for it.
--
-- KEYS    see rw.lua
-- ARGV[1] wait, or "" for nobody: then what can be had of the lock is handed over
-- ARGV[2] 1 to give back the hold of the wait as well, 0 for a wait that may have been granted
--
-- 1: done   4: done, and more waits are before the next one that lives than one script looks at

local hold = string.match(ARGV[1], '^([^:]+:%d+):[sw][fu]:[1-9]%d*$')
if (#ARGV[1] > 0 and not hold) or (ARGV[2] ~= '0' and ARGV[2] ~= '1') then
  return redis.error_reply('ERR relock: rw_cancel: bad arguments')
end

local state, detail = view()
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
    forget('r:' .. hold)
    forget('w:' .. hold)
  end
end
return pass()
