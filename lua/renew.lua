-- Extend the lease of a plain lock that the caller still holds. Never shortens
-- it.
--
-- KEYS[1] the lock
-- ARGV[1] value
-- ARGV[2] lease in ms
--
-- 1: the expiry is the longer of what was left and the lease
-- 9: the hold is marked to end by force, and nothing was changed
-- 0: not held by the caller
-- -1: the key is of another kind

if #ARGV[1] == 0 or not whole(ARGV[2], 10) then
  return redis.error_reply('ERR relock: renew: bad arguments')
end

local held = redis.pcall('GET', KEYS[1])
if type(held) == 'table' then
  return refused(held)
end
if held ~= ARGV[1] then
  if unmarked(held) == ARGV[1] then
    return absent(9)
  end
  return absent(0)
end
lengthen(ARGV[2])
return 1
