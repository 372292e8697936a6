-- Lengthen the lease of a delivery; never shorten it.
--
-- KEYS    l leased, m attempts; see docs/queue-design.md
-- ARGV[1] id   ARGV[2] fence   ARGV[3] lease in ms
--
-- 1: the lease is the longer of what was left and the given one
-- 0: it has none

if #ARGV ~= 3 then
  return redis.error_reply('ERR relock: task_renew: bad arguments')
end
local lease = whole(ARGV[3], 10)
if #ARGV[1] == 0 or not string.find(ARGV[2], '^[1-9]%d*$') or not lease then
  return redis.error_reply('ERR relock: task_renew: bad arguments')
end

local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local ends = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not ends or tonumber(ends) <= now then
  return absent(0)
end
local fence = string.match(tostring(redis.call('HGET', KEYS[2], ARGV[1])), '^%d+ (%d+) ')
if fence ~= ARGV[2] then
  return absent(0)
end
redis.call('ZADD', KEYS[1], string.format('%.0f', math.max(ends, now + lease * 1000)), ARGV[1])
return 1
