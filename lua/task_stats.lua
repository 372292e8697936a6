-- Count the tasks of a queue.
--
-- KEYS d due, l leased, p records, i idle receivers, z dead letters;
--      see docs/queue-design.md
--
-- {due, delayed, leased, behind a key, dead, idle receivers, us since the
-- oldest due task is due}

local t = redis.call('TIME')
local now = string.format('%.0f', t[1] * 1000000 + t[2])
local due = redis.call('ZCOUNT', KEYS[1], '-inf', now)
local oldest = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'WITHSCORES', 'LIMIT', 0, 1)[2]
local age = 0
if oldest then
  age = now - oldest
end
local idle = redis.call('ZCOUNT', KEYS[4], string.format('%.0f', now - 2500000), '+inf')
local unleased, leased, dead = redis.call('ZCARD', KEYS[1]), redis.call('ZCARD', KEYS[2]), redis.call('ZCARD', KEYS[5])
local behind = redis.call('HLEN', KEYS[3]) - unleased - leased - dead -- each task is in one place
return {due, unleased - due, leased, math.max(0, behind), dead, idle, age}
