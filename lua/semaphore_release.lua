-- Release a permit that the caller holds. It stays taken until the end of its
-- minimum hold. What is free then is handed off.
--
-- KEYS: see semaphore_kind.lua; only the first if there can be no queue
-- ARGV[1] hold id
--
-- 1: released
-- 2: released, now or before, and kept for its minimum hold
-- 4: as 1, but the scan limit was reached before a live waiter
-- 9: the hold was marked to end by force, and is released
-- 0: not held by the caller
-- -1: the key is of another kind

if #ARGV[1] == 0 then
  return redis.error_reply('ERR relock: semaphore_release: bad arguments')
end

local early = leave_early(ARGV[1])
if early then
  return early
end
