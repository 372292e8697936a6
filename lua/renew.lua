-- Extend the lease of a plain lock that the caller still holds. Never shortens
-- it.
--
-- KEYS[1] the lock
-- ARGV[1] value
-- ARGV[2] lease in ms
--
-- 1: the expiry is the longer of what was left and the lease
-- 0: not held by the caller
-- -1: the key is of another kind

local lease = whole(ARGV[2], 10)
if #ARGV[1] == 0 or not lease then
  return redis.error_reply('ERR relock: renew: bad arguments')
end

local held = redis.pcall('GET', KEYS[1])
if type(held) == 'table' then
  if string.find(held.err, 'WRONGTYPE', 1, true) then
    return absent(-1)
  end
  return held
end
if held ~= ARGV[1] then
  return absent(0)
end
-- This is always a write: a WAIT after it asks the replicas for the last write
-- of this connection.
redis.call('PEXPIRE', KEYS[1], string.format('%.0f', math.max(redis.call('PTTL', KEYS[1]), lease)))
return 1
