-- Raise a counter of fencing tokens to a token that was drawn from another one,
-- for the same hold.
--
-- KEYS[1] the counter
-- ARGV[1] token
--
-- 1: no lower token will be drawn from it

if not string.find(ARGV[1], '^[1-9]%d*$') or #ARGV[1] > 16 then
  return redis.error_reply('ERR relock: fence_raise: bad arguments')
end

local last = tonumber(redis.call('GET', KEYS[1]))
if not last or last < tonumber(ARGV[1]) then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', 2592000000)
end
return 1
