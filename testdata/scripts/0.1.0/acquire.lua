-- Take a plain lock that is free, or that holds an earlier value of the same wait.
--
-- KEYS[1] the lock
-- ARGV[1] value   ARGV[2] earlier value whose answer never came, or ""   ARGV[3] lease in ms
--
-- 1: ours, with a whole lease   0: held by others   -1: the key is of another kind

local function whole(s, least)
  if (s ~= '0' and not string.find(s, '^[1-9]%d*$')) or #s > 15 or tonumber(s) < least then
    return nil
  end
  return tonumber(s)
end

local lease = whole(ARGV[3], 10)
if #ARGV[1] == 0 or not lease then
  return redis.error_reply('ERR relock: acquire: bad arguments')
end

local held = redis.pcall('GET', KEYS[1])
if type(held) == 'table' then
  if string.find(held.err, 'WRONGTYPE', 1, true) then
    return -1
  end
  return held
end
if held == ARGV[1] then
  -- An earlier copy of this request took it: the lease starts anew, and is never shortened.
  if redis.call('PTTL', KEYS[1]) < lease then
    redis.call('PEXPIRE', KEYS[1], ARGV[3])
  end
  return 1
end
if held and (held ~= ARGV[2] or #ARGV[2] == 0) then
  if string.sub(held, 1, 7) == 'relock/' then
    return 0
  end
  return -1
end

redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[3])
return 1
