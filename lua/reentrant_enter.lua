-- Go one level deeper into a reentrant lock that is ours. Never creates it.
--
-- KEYS[1] the lock
-- ARGV[1] owner   ARGV[2] hold id   ARGV[3] count wanted   ARGV[4] number of this change   ARGV[5] lease in ms
--
-- 1: the change is applied, or an older one that no longer matters   0: not ours   -1: the key is of another kind

local function whole(s, least)
  local n = (s == '0' or string.find(s, '^[1-9]%d*$')) and #s <= 15 and tonumber(s)
  return n and n >= least and n
end

local count, seq, lease = whole(ARGV[3], 2), whole(ARGV[4], 2), whole(ARGV[5], 10)
if #ARGV[1] == 0 or #ARGV[2] == 0 or not count or not seq or not lease then
  return redis.error_reply('ERR relock: reentrant_enter: bad arguments')
end

local kind = redis.call('TYPE', KEYS[1]).ok
if kind ~= 'hash' then
  return kind == 'none' and 0 or -1
end
if redis.call('HGET', KEYS[1], 'hold') ~= ARGV[2] then
  return 0
end
local newest = tonumber(string.sub(redis.call('HGET', KEYS[1], 'seq'), 2))
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
