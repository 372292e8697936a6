-- Remove a task, or a dead letter.
--
-- KEYS    d due, l leased, p records, m attempts, k heads of keys, o behind
--         their keys, i idle receivers, z dead letters; see
--         docs/queue-design.md
-- ARGV[1] id
--
-- 1: removed   0: there is none   2: it has a lease

if #ARGV ~= 1 or #ARGV[1] == 0 then
  return redis.error_reply('ERR relock: task_remove: bad arguments')
end
local id = ARGV[1]
local record = redis.call('HGET', KEYS[3], id)
if not record then
  return absent(0)
end
if redis.call('ZSCORE', KEYS[2], id) then
  return absent(2)
end
local ticket, key = parts(record)
may(KEYS[1], KEYS[4])
if #key > 0 and redis.call('HGET', KEYS[5], key) == id then
  local t, first = redis.call('TIME'), next_of(KEYS[6], key)
  local now = t[1] * 1000000 + t[2]
  wake(KEYS[7], follow(KEYS[1], KEYS[5], KEYS[6], key, first, now), now)
end
redis.call('HDEL', KEYS[3], id)
redis.call('HDEL', KEYS[4], id)
redis.call('ZREM', KEYS[1], id)
redis.call('ZREM', KEYS[6], key .. '\0' .. ticket .. '\0' .. id)
redis.call('ZREM', KEYS[8], id)
return 1
