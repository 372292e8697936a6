-- Take a wait out of the queue, and pass on what was meant for it.
--
-- KEYS    see queue.lua
-- ARGV[1] wait, or "" for nobody: then a lock that is free is handed over
-- ARGV[2] 1 to give back the hold of the wait as well, 0 for a wait that may have been granted
--
-- 1: done   4: done, and more waits are before the next one that lives than one script looks at

local hold = string.match(ARGV[1], '^([^:]+:%d+):[pr][fu]:[1-9]%d*$')
if (#ARGV[1] > 0 and not hold) or (ARGV[2] ~= '0' and ARGV[2] ~= '1') then
  return redis.error_reply('ERR relock: cancel: bad arguments')
end

local state, detail = look()
if state == 'error' then
  return detail
end
if hold then
  redis.call('ZREM', KEYS[2], ARGV[1])
end
if state == 'free' or (state == 'reserved' and detail == ARGV[1]) or (state == 'held' and detail == hold and ARGV[2] == '1') then
  return give_back()
end
return 1
