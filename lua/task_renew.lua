-- Lengthen the lease of a delivery; never shorten it.
--
-- KEYS    l leased, m attempts; see docs/internals/queue-design.md
-- ARGV[1] id   ARGV[2] fence, @ and the receiver's token   ARGV[3] lease in ms
--
-- 1: the lease is the longer of what was left and the given one
-- 0: it has none

if #ARGV ~= 3 then
  return redis.error_reply('ERR relock: task_renew: bad arguments')
end
local lease = whole(ARGV[3], 10)
if #ARGV[1] == 0 or not string.find(ARGV[2], '^[1-9]%d*@%w+$') or not lease then
  return redis.error_reply('ERR relock: task_renew: bad arguments')
end

local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local ends = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not ends or tonumber(ends) <= now then
  return absent(0)
end
local _, _, fence = read_meta(redis.call('HGET', KEYS[2], ARGV[1]))
if fence ~= ARGV[2] then
  return absent(0)
end
redis.call('ZREM', KEYS[1], '') -- never refused for want of memory, nor is what follows
redis.call('ZADD', KEYS[1], string.format('%.0f', math.max(ends, now + lease * 1000)), ARGV[1])
return 1
