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
may(KEYS[1], KEYS[4])
local _, key, _, before = parts(record)
if #key > 0 and before and not redis.call('ZSCORE', KEYS[8], id) then
  local after = next_of(KEYS[6], id)
  if redis.call('ZSCORE', KEYS[1], id) then
    local t = redis.call('TIME')
    local now = t[1] * 1000000 + t[2]
    wake(KEYS[7], follow(KEYS[1], KEYS[5], KEYS[6], key, id, after, now), now)
  elseif after then
    -- The one behind it follows the one before it.
    local next = string.sub(after, 17)
    local moved = redis.call('HGET', KEYS[3], next)
    if moved then
      local ticket, _, from = parts(moved)
      redis.call('HSET', KEYS[3], next, placed(moved, ticket, from, before))
    end
    redis.call('HSET', KEYS[6], before, after)
    redis.call('HDEL', KEYS[6], id)
  else
    redis.call('HSET', KEYS[5], key, before)
    redis.call('HDEL', KEYS[6], before)
  end
end
redis.call('HDEL', KEYS[3], id)
redis.call('HDEL', KEYS[4], id)
redis.call('ZREM', KEYS[1], id)
redis.call('ZREM', KEYS[8], id)
return 1
