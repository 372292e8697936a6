-- Remove a task, or a dead letter.
--
-- KEYS    d due, l leased, p records, m attempts, k last ids of keys, o
--         behind their keys, i idle receivers, z dead letters; see
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
local _, key, _, before = parts(record)
redis.call('HDEL', KEYS[3], id)
redis.call('HDEL', KEYS[4], id)
local due, dead = redis.call('ZREM', KEYS[1], id), redis.call('ZREM', KEYS[8], id)
if #key == 0 or dead == 1 or not before then
  return 1
end
local after = next_of(KEYS[6], id)
if due == 1 then
  local t = redis.call('TIME')
  wake(KEYS[7], follow(KEYS[1], KEYS[5], KEYS[6], key, id, after), t[1] * 1000000 + t[2])
  return 1
end
redis.call('HDEL', KEYS[6], id, before)
if not after then
  redis.call('HSET', KEYS[5], key, before)
  return 1
end
-- The one behind it follows the one before it.
redis.call('HSET', KEYS[6], before, after)
id = string.sub(after, 17)
record = redis.call('HGET', KEYS[3], id)
if record then
  local ticket, _, from = parts(record)
  redis.call('HSET', KEYS[3], id, placed(record, ticket, from, before))
end
return 1
