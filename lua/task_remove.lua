-- Remove a task, or a dead letter.
--
-- KEYS    d due, l leased, p records, m attempts, k last ids of keys, o
--         behind their keys, i idle receivers, z dead letters, w delayed ones
--         of keys, s due again after an interruption, b behind locks and
--         paused keys; see docs/internals/queue-design.md
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
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local dead = redis.call('ZSCORE', KEYS[8], id)
local ends = redis.call('ZSCORE', KEYS[2], id)
if ends and tonumber(ends) > now then
  return absent(2)
end
local ticket, key, _, before = parts(record)
may(KEYS[1], KEYS[4])

-- leave takes the task from its key. It returns how many others are due now.
local function leave()
  local after = next_of(KEYS[6], id)
  if string.sub(tostring(next_of(KEYS[6], before)), 17) ~= id then -- it is the head
    return follow(KEYS[1], KEYS[5], KEYS[6], key, id, after, now)
  end
  -- The one behind it follows the one before it.
  if after then
    redis.call('HSET', KEYS[6], before, after)
    local behind = string.sub(after, 17)
    record = redis.call('HGET', KEYS[3], behind)
    if record then
      local ticket, _, from = parts(record)
      redis.call('HSET', KEYS[3], behind, placed(record, ticket, from, before))
    end
    redis.call('HDEL', KEYS[6], id)
  else
    redis.call('HSET', KEYS[5], key, before)
    redis.call('HDEL', KEYS[6], before)
  end
  return 0
end

if #key > 0 and before and not dead then
  wake(KEYS[7], leave(), now)
end
redis.call('HDEL', KEYS[3], id)
redis.call('HDEL', KEYS[4], id)
redis.call('ZREM', KEYS[1], id)
redis.call('ZREM', KEYS[2], id)
redis.call('ZREM', KEYS[8], id)
redis.call('ZREM', KEYS[9], id)
redis.call('ZREM', KEYS[10], id)
redis.call('ZREM', KEYS[11], behind_pause(key) .. ticket .. id)
return 1
