-- Go one level deeper into a read/write lock that is ours. Who reads may write only while nobody else reads; who wants no level that writes
-- goes on as one that reads. Never makes a hold.
--
-- KEYS    see rw.lua
-- ARGV[1] hold id   ARGV[2], ARGV[3] levels wanted that read and that write   ARGV[4] number of this change   ARGV[5] lease in ms
--
-- 1: the change is applied, or an older one that no longer matters   7: others read, the levels are as they were
-- 0: not ours   -1: the key is of another kind

local reads, writes, seq, lease = whole(ARGV[2], 0), whole(ARGV[3], 0), whole(ARGV[4], 2), whole(ARGV[5], 10)
if #ARGV[1] == 0 or not reads or not writes or not seq or not lease or reads + writes < 2 then
  return redis.error_reply('ERR relock: rw_enter: bad arguments')
end

local state, detail = view()
if state == 'error' then
  return detail
end
if state == 'alien' then
  return absent(-1)
end
local entry, at = held(ARGV[1])
if not entry then
  return absent(0)
end
local known = newest(ARGV[1])
if seq > known then
  -- Also when it is refused: a late copy of this request must not be granted.
  redis.call('ZADD', KEYS[1], -seq, '#' .. ARGV[1])
  if writes > 0 and entry == 'r' and redis.call('ZCOUNT', KEYS[1], later, never) == 1 then
    entry = 'w'
    redis.call('ZADD', KEYS[1], text(at), 'w:' .. ARGV[1])
    redis.call('ZREM', KEYS[1], 'r:' .. ARGV[1])
    redis.call('ZREMRANGEBYSCORE', KEYS[1], 1, text(now))
  elseif writes == 0 and entry == 'w' then
    -- The release of the last level that wrote was overtaken. Who waits to read finds out by the next poll.
    entry = 'r'
    redis.call('ZADD', KEYS[1], text(at), 'r:' .. ARGV[1])
    redis.call('ZREM', KEYS[1], 'w:' .. ARGV[1])
  end
end
if writes > 0 and entry == 'r' then
  return 7
end
if seq > known then
  note(ARGV[1], ARGV[2], ARGV[3])
end
if seq >= known then
  lengthen(ARGV[1], entry, at, lease)
end
return 1
