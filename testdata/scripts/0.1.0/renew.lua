-- Lengthen the lease of a plain lock that is still ours; never shorten it.
--
-- KEYS[1] the lock
-- ARGV[1] value   ARGV[2] lease in ms
--
-- 1: the expiry is the longer of what was left and the lease   0: not ours   -1: the key is of another kind

local function whole(s, least)
  if (s ~= '0' and not string.find(s, '^[1-9]%d*$')) or #s > 15 or tonumber(s) < least then
    return nil
  end
  return tonumber(s)
end

local lease = whole(ARGV[2], 10)
if #ARGV[1] == 0 or not lease then
  return redis.error_reply('ERR relock: renew: bad arguments')
end

local held = redis.pcall('GET', KEYS[1])
if type(held) == 'table' then
  if string.find(held.err, 'WRONGTYPE', 1, true) then
    return -1
  end
  return held
end
if held ~= ARGV[1] then
  return 0
end
if redis.call('PTTL', KEYS[1]) < lease then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 1
