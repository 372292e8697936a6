-- Leave a level of a reentrant lock that is ours; with no level left give it back: at once, to the next wait of its queue, or after a
-- minimum hold.
--
-- KEYS    see queue.lua; the first alone when there can be no queue
-- ARGV[1] owner   ARGV[2] hold id   ARGV[3] count wanted, 0 to give it back   ARGV[4] number of this change
-- ARGV[5] ms to keep the key when the count is 0, 0 for none
-- ARGV[6] a wait of the holder's client that nobody needs any more, "" or absent when there is none
-- ARGV[7] id of another hold, which a request in doubt may have made of this one; absent when there is none
--
-- 1: the change is applied, or an older one that no longer matters   2: was released before and was kept
-- 4: was ours and is given back, and more waits are before the next one that lives than one script looks at
-- 0: not ours   -1: the key is of another kind
--
-- A release with nothing to keep ends a keep before it: it is only sent when the minimum hold is over.

local count, seq, keep = whole(ARGV[3], 0), whole(ARGV[4], 2), whole(ARGV[5], 0)
if #ARGV[1] == 0 or #ARGV[2] == 0 or not count or not seq or not keep then
  return redis.error_reply('ERR relock: reentrant_release: bad arguments')
end

local stored = redis.pcall('HMGET', KEYS[1], 'hold', 'seq')
if stored.err then
  if string.find(stored.err, 'WRONGTYPE', 1, true) then
    return absent(-1)
  end
  return stored
end
local hold = stored[1]
if hold == 'kept:' .. ARGV[2] then
  if count == 0 and keep == 0 then
    give_back()
  end
  return 2
end
if hold ~= ARGV[2] and hold ~= ARGV[7] then
  return absent(0)
end

if count > 0 then
  if seq > tonumber(string.sub(stored[2], 2)) then
    -- HDEL is never refused for want of memory, and lets the HSET after it pass.
    redis.call('HDEL', KEYS[1], '')
    redis.call('HSET', KEYS[1], ARGV[1], ARGV[3], 'seq', '#' .. ARGV[4])
  end
  return 1
end
if ARGV[6] and #KEYS == 3 then
  redis.pcall('ZREM', KEYS[2], ARGV[6])
end
if keep == 0 then
  return give_back()
end
-- First, since nothing is to be changed where it is denied, and it lets what follows pass when memory is full; and last, see queue.lua.
redis.call('PEXPIRE', KEYS[1], ARGV[5])
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('HSET', KEYS[1], 'hold', 'kept:' .. ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[5])
return 1
