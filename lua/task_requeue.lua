-- Queue dead letters once more, as if they were new.
--
-- KEYS n the last number, d due, p records, m attempts, k last ids of
--      keys, o behind their keys, i idle receivers, z dead letters; see
--      docs/queue-design.md
-- ARGV ids, at most 64
--
-- How many were dead letters.

if #ARGV == 0 or #ARGV > 64 then
  return redis.error_reply('ERR relock: task_requeue: bad arguments')
end
may(KEYS[2], KEYS[4])
local ticket, now = draw(KEYS[1], #ARGV)
local queued, soon = 0, 0
for i, id in ipairs(ARGV) do
  local record = redis.call('HGET', KEYS[3], id)
  if record and redis.call('ZSCORE', KEYS[8], id) then
    local _, key, from = parts(record)
    local score, before = text(ticket + i - 1), false
    if #key > 0 then
      before = redis.call('HGET', KEYS[5], key)
      redis.call('HSET', KEYS[5], key, id)
    end
    redis.call('HSET', KEYS[3], id, placed(record, score, from, before))
    if before then
      redis.call('HSET', KEYS[6], before, score .. id)
    else
      redis.call('ZADD', KEYS[2], text(now + i - 1), id)
      soon = soon + 1
    end
    redis.call('HDEL', KEYS[4], id)
    redis.call('ZREM', KEYS[8], id)
    queued = queued + 1
  end
end
wake(KEYS[7], soon, now)
return queued
