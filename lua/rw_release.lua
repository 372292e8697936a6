-- Leave a level of a read/write lock that is ours: with no level left the hold ends; with none left that writes it goes on as one that
-- reads. What can be had then goes to those who wait.
--
-- KEYS    see rw.lua; the first alone when there can be no queue
-- ARGV[1] hold id   ARGV[2], ARGV[3] levels wanted that read and that write, both 0 to give it back   ARGV[4] number of this change
--
-- 1: the change is applied, or an older one that no longer matters   4: the same, and more waits are before the next one that lives than one
-- script looks at   0: not ours   -1: the key is of another kind

local reads, writes, seq = whole(ARGV[2], 0), whole(ARGV[3], 0), whole(ARGV[4], 2)
if #ARGV[1] == 0 or not reads or not writes or not seq then
  return redis.error_reply('ERR relock: rw_release: bad arguments')
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
if reads + writes == 0 then
  forget(entry .. ':' .. ARGV[1])
  return pass()
end
if seq <= newest(ARGV[1]) then
  return 1
end
if writes > 0 and entry == 'r' then
  return absent(0)
end
-- ZREM is never refused for want of memory, and lets what follows pass.
redis.call('ZREM', KEYS[1], '')
redis.call('ZADD', KEYS[1], -seq, '#' .. ARGV[1])
note(ARGV[1], ARGV[2], ARGV[3])
if writes == 0 and entry == 'w' then
  redis.call('ZADD', KEYS[1], text(at), 'r:' .. ARGV[1])
  redis.call('ZREM', KEYS[1], 'w:' .. ARGV[1])
  return pass()
end
return 1
