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

-- is_alone reports whether a hold is all that the lock has, and nobody waits.
-- Three entries are its own, its number and the mode.
local function is_alone(hold)
  if redis.pcall('ZCARD', KEYS[1]) ~= 3 or redis.pcall('EXISTS', KEYS[2]) ~= 0 then
    return false
  end
  local at = redis.pcall('ZSCORE', KEYS[1], 'r:' .. hold)
  if not at then
    at = redis.pcall('ZSCORE', KEYS[1], 'w:' .. hold)
  end
  if type(at) ~= 'string' then
    return false
  end
  local t = redis.call('TIME')
  if tonumber(at) > t[1] * 1000000 + t[2] then
    return true
  end
  return false
end

-- The last holder deletes the lock. Redis takes longer to define the functions
-- of the queue than to run this.
if reads + writes == 0 and #KEYS == 4 and is_alone(ARGV[1]) then
  local freed = redis.pcall('DEL', KEYS[1], KEYS[4])
  if type(freed) == 'number' then
    return 1
  end
end
