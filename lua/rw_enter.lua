-- Change the levels of a read/write lock that the caller holds. A reader may
-- write only while there is no other reader. Without a writing level, a writer
-- becomes a reader. Never makes a hold.
--
-- KEYS: see rw.lua
-- ARGV[1] hold id
-- ARGV[2], ARGV[3] reading and writing levels wanted
-- ARGV[4] number of this change
-- ARGV[5] lease in ms
--
-- 1: the change is applied, or a newer one was
-- 7: there are other readers; the levels are unchanged
-- 9: the hold is marked to end by force, and nothing was changed
-- 0: not held by the caller
-- -1: the key is of another kind

local reads, writes, seq, lease = whole(ARGV[2], 0), whole(ARGV[3], 0), whole(ARGV[4], 2), whole(ARGV[5], 10)
if #ARGV[1] == 0 or not reads or not writes or not seq or not lease or reads + writes < 2 then
  return redis.error_reply('ERR relock: rw_enter: bad arguments')
end

local state, detail = rw_state()
if state == 'error' then
  return detail
end
if state == 'alien' then
  return absent(-1)
end
local entry, at = held(ARGV[1])
if not entry then
  if held('!' .. ARGV[1]) then
    return absent(9)
  end
  return absent(0)
end
local known = last_change(ARGV[1])
if seq > known then
  -- Also if it is refused: a late copy of this request must not be granted.
  redis.call('ZADD', KEYS[1], -seq, '#' .. ARGV[1])
  if writes > 0 and entry == 'r' and redis.call('ZCOUNT', KEYS[1], later, never) == 1 then
    entry = 'w'
    redis.call('ZADD', KEYS[1], text(at), 'w:' .. ARGV[1])
    redis.call('ZREM', KEYS[1], 'r:' .. ARGV[1])
    redis.call('ZREMRANGEBYSCORE', KEYS[1], 1, text(now))
  elseif writes == 0 and entry == 'w' then
    -- The release of the last writing level was overtaken. Waiting readers
    -- learn of it by their next poll.
    entry = 'r'
    redis.call('ZADD', KEYS[1], text(at), 'r:' .. ARGV[1])
    redis.call('ZREM', KEYS[1], 'w:' .. ARGV[1])
  end
end
if writes > 0 and entry == 'r' then
  return 7
end
if seq > known then
  record_levels(ARGV[1], ARGV[2], ARGV[3])
end
if seq >= known then
  extend(ARGV[1], entry, at, lease)
end
return 1
