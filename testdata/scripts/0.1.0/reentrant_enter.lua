-- Go one level deeper into a reentrant lock that is ours. Never creates it.
--
-- KEYS[1] the lock
-- ARGV[1] owner   ARGV[2] hold id   ARGV[3] count wanted   ARGV[4] number of this change   ARGV[5] lease in ms
--
-- 1: the change is applied, or an older one that no longer matters   0: not ours   -1: the key is of another kind

local function whole(s, least)
  if (s ~= '0' and not string.find(s, '^[1-9]%d*$')) or #s > 15 or tonumber(s) < least then
    return nil
  end
  return tonumber(s)
end

local count, seq, lease = whole(ARGV[3], 2), whole(ARGV[4], 2), whole(ARGV[5], 10)
if #ARGV[1] == 0 or #ARGV[2] == 0 or not count or not seq or not lease then
  return redis.error_reply('ERR relock: reentrant_enter: bad arguments')
end

local stored = redis.pcall('HMGET', KEYS[1], 'hold', 'seq')
if stored.err then
  if string.find(stored.err, 'WRONGTYPE', 1, true) then
    return -1
  end
  return stored
end
if stored[1] ~= ARGV[2] then
  return 0
end
local newest = tonumber(string.sub(stored[2], 2))
if seq < newest then
  return 1
end
if seq > newest then
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[3], 'seq', '#' .. ARGV[4])
end
if redis.call('PTTL', KEYS[1]) < lease then
  redis.call('PEXPIRE', KEYS[1], ARGV[5])
end
return 1
