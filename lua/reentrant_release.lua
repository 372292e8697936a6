-- Remove a level of a reentrant lock that the caller holds. Without a level
-- left, release it: immediately, to the next waiter, or after a minimum hold.
--
-- KEYS: see queue.lua; only the first if there can be no queue
-- ARGV[1] owner
-- ARGV[2] hold id
-- ARGV[3] levels wanted, 0 to release the lock
-- ARGV[4] number of this change
-- ARGV[5] ms to keep the key if no level is left, 0 for none
-- ARGV[6] a waiter of the holder's client that is no longer needed, "" or
--   absent without one
-- ARGV[7] id of another hold, which an indeterminate request may have made of
--   this one; absent without one
--
-- 1: the change is applied, or a newer one was
-- 2: was released before, and was kept
-- 4: is released, but the scan limit was reached before a live waiter
-- 9: the hold was marked to end by force. It is released, unless a level is
--   wanted
-- 0: not held by the caller
-- -1: the key is of another kind
--
-- A release with nothing to keep ends an earlier keep: it is sent only once the
-- minimum hold is over.

local count, seq, keep = whole(ARGV[3], 0), whole(ARGV[4], 2), whole(ARGV[5], 0)
if #ARGV[1] == 0 or #ARGV[2] == 0 or not count or not seq or not keep then
  return redis.error_reply('ERR relock: reentrant_release: bad arguments')
end

local stored = redis.pcall('HMGET', KEYS[1], 'hold', 'seq')
if stored.err then
  return refused(stored)
end
local hold = stored[1]
if hold == 'kept:' .. ARGV[2] then
  if count == 0 and keep == 0 then
    release()
  end
  return 2
end

-- is_ours reports whether an id is that of a hold that this request names.
local function is_ours(id)
  if id and (id == ARGV[2] or id == ARGV[7]) then
    return true
  end
  return false
end

local forced = is_ours(string.match(tostring(hold), '^!(.*)$'))
if not forced and not is_ours(hold) then
  return absent(0)
end
if forced and count > 0 then
  return absent(9)
end

if count > 0 then
  if seq > tonumber(string.sub(stored[2], 2)) then
    local set = redis.pcall('HSET', KEYS[1], ARGV[1], ARGV[3], 'seq', '#' .. ARGV[4])
    if type(set) == 'table' then
      -- Memory is full. HDEL is never refused, and lets the HSET after it pass.
      redis.call('HDEL', KEYS[1], '')
      redis.call('HSET', KEYS[1], ARGV[1], ARGV[3], 'seq', '#' .. ARGV[4])
    end
  end
  return 1
end
if ARGV[6] and #KEYS == 3 then
  redis.pcall('ZREM', KEYS[2], ARGV[6])
end
if forced then
  release()
  return 9
end
if keep == 0 then
  return release()
end
-- PEXPIRE runs first: if it is denied, nothing must change, and if memory is
-- full, it lets the next writes pass. It runs last because of what retain in
-- queue.lua says about the clock.
redis.call('PEXPIRE', KEYS[1], ARGV[5])
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('HSET', KEYS[1], 'hold', 'kept:' .. ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[5])
return 1
