-- Release a plain lock that the caller holds: immediately, to the next waiter,
-- or after a minimum hold.
--
-- KEYS: see queue.lua; only the first if there can be no queue
-- ARGV[1] value
-- ARGV[2] ms to keep the key, 0 for none
-- ARGV[3] value while it is kept; "" if it never is
-- ARGV[4] a waiter of the holder's client that is no longer needed, "" or
--   absent without one
-- ARGV[5] value of another hold, which an indeterminate request may have made
--   of this one; absent without one
--
-- 1: released
-- 2: was released before, and was kept
-- 4: released, but the scan limit was reached before a live waiter
-- 9: the hold was marked to end by force, and is released
-- 0: not held by the caller
-- -1: the key is of another kind
--
-- A release with nothing to keep ends an earlier keep: it is sent only once the
-- minimum hold is over.

local keep = whole(ARGV[2], 0)
if #ARGV[1] == 0 or not keep or (keep > 0 and #ARGV[3] == 0) then
  return redis.error_reply('ERR relock: release: bad arguments')
end

if type(held) == 'table' then
  return refused(held)
end

-- is_ours reports whether a value is that of a hold that this request names.
local function is_ours(value)
  if value and (value == ARGV[1] or value == ARGV[5]) then
    return true
  end
  return false
end

local forced = is_ours(unmarked(held))
if forced or (is_ours(held) and keep == 0) then
  if ARGV[4] and #KEYS == 3 then
    redis.pcall('ZREM', KEYS[2], ARGV[4])
  end
  local answer = release()
  if forced then
    return 9
  end
  return answer
end
if #ARGV[3] > 0 and held == ARGV[3] then
  if keep == 0 then
    release()
  end
  return 2
end
if not is_ours(held) then
  return absent(0)
end
-- PEXPIRE is never refused when memory is full, and lets the SET after it pass.
redis.call('PEXPIRE', KEYS[1], ARGV[2])
redis.call('SET', KEYS[1], ARGV[3], 'PX', ARGV[2])
return 1
