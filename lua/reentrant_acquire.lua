-- Take a reentrant lock that is free: one level for the owner, under a new hold id.
--
-- KEYS[1] the lock
-- ARGV[1] owner   ARGV[2] hold id   ARGV[3] lease in ms   ARGV[4] info
--
-- 1: ours, with a whole lease   0: held by others   -1: the key is of another kind

local function whole(s, least)
  local n = (s == '0' or string.find(s, '^[1-9]%d*$')) and #s <= 15 and tonumber(s)
  return n and n >= least and n
end

local lease = whole(ARGV[3], 10)
if #ARGV[1] == 0 or #ARGV[2] == 0 or not lease or not ARGV[4] then
  return redis.error_reply('ERR relock: reentrant_acquire: bad arguments')
end

local kind = redis.call('TYPE', KEYS[1]).ok
if kind ~= 'none' then
  if kind ~= 'hash' then
    return -1
  end
  local hold = redis.call('HGET', KEYS[1], 'hold')
  if hold ~= ARGV[2] then
    return hold and 0 or -1
  end
  -- An earlier copy of this request took it: the lease starts anew, and is never shortened.
  if redis.call('PTTL', KEYS[1]) < lease then
    redis.call('PEXPIRE', KEYS[1], ARGV[3])
  end
  return 1
end

-- Without an expiry the lock would stay for ever, so what may be refused is tried before anything is written. On a key that is
-- not there, the first two do nothing: the one asks for memory, the other for the permission to set an expiry.
redis.call('SET', KEYS[1], '', 'XX')
redis.call('PEXPIRE', KEYS[1], ARGV[3])
redis.call('HSET', KEYS[1], ARGV[1], 1, 'hold', ARGV[2], 'seq', '#1', 'info', ARGV[4])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1
