-- Extend the lease of a hold of a read/write lock or a semaphore that the
-- caller still holds. Never shortens it.
--
-- KEYS: see rw.lua; only the first while a Cluster moves them
-- ARGV[1] hold id
-- ARGV[2] lease in ms
--
-- 1: the hold lasts for the longer of what was left and the lease
-- 9: the hold is marked to end by force, and nothing was changed
-- 0: not held by the caller
-- -1: the key is of another kind

local lease = whole(ARGV[2], 10)
if #ARGV[1] == 0 or not lease then
  return redis.error_reply('ERR relock: rw_renew: bad arguments')
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
extend(ARGV[1], entry, at, lease)
return 1
