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
-- 9: the hold was marked to end by force. It is released, unless a level is
--   wanted
-- 0: not held by the caller
-- -1: the key is of another kind

local reads, writes, seq = whole(ARGV[2], 0), whole(ARGV[3], 0), whole(ARGV[4], 2)
if #ARGV[1] == 0 or not reads or not writes or not seq then
  return redis.error_reply('ERR relock: rw_release: bad arguments')
end

if reads + writes == 0 then
  local early = leave_early(ARGV[1])
  if early then
    return early
  end
end
