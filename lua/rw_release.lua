-- Remove a level of a read/write lock that the caller holds. Without a level
-- left the hold ends. Without a writing level left it becomes a reader. What is
-- available then is handed off.
--
-- KEYS: see rw.lua; only the first if there can be no queue
-- ARGV[1] hold id
-- ARGV[2], ARGV[3] reading and writing levels wanted, both 0 to release the
--   lock
-- ARGV[4] number of this change
--
-- 1: the change is applied, or a newer one was
-- 4: the same, but the scan limit was reached before a live waiter
-- 0: not held by the caller
-- -1: the key is of another kind

local reads, writes, seq = whole(ARGV[2], 0), whole(ARGV[3], 0), whole(ARGV[4], 2)
if #ARGV[1] == 0 or not reads or not writes or not seq then
  return redis.error_reply('ERR relock: rw_release: bad arguments')
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
  return absent(0)
end
if reads + writes == 0 then
  remove(entry .. ':' .. ARGV[1])
  return pass_on()
end
if seq <= last_change(ARGV[1]) then
  return 1
end
if writes > 0 and entry == 'r' then
  return absent(0)
end
-- ZREM is never refused when memory is full, and lets the next writes pass.
redis.call('ZREM', KEYS[1], '')
redis.call('ZADD', KEYS[1], -seq, '#' .. ARGV[1])
record_levels(ARGV[1], ARGV[2], ARGV[3])
if writes == 0 and entry == 'w' then
  redis.call('ZADD', KEYS[1], text(at), 'r:' .. ARGV[1])
  redis.call('ZREM', KEYS[1], 'w:' .. ARGV[1])
  return pass_on()
end
return 1
