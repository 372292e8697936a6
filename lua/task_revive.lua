-- revived is how many bytes of records a script queues once more, but at least
-- one record.
local revived = 1048576

-- revive queues a dead letter once more with this ticket, as if it was new. It
-- returns how many tasks are due now: 1 or 0. Its scripts have the same keys.
local function revive(id, record, ticket, at)
  local _, key, from = parts(record)
  local before, due = false, 0
  if #key > 0 then
    before = redis.call('HGET', KEYS[5], key)
    redis.call('HSET', KEYS[5], key, id)
  end
  redis.call('HSET', KEYS[3], id, placed(record, ticket, from, before))
  if before then
    redis.call('HSET', KEYS[6], before, ticket .. id)
  else
    redis.call('ZADD', KEYS[2], text(at), id)
    due = 1
  end
  redis.call('HDEL', KEYS[4], id)
  redis.call('ZREM', KEYS[8], id)
  return due
end

-- revive_all queues the first of these ids once more that are dead letters. It
-- returns how many these were, and how many ids it has looked at: large letters
-- take time, so some may be left.
local function revive_all(ids, ticket, now)
  local queued, looked, soon, bytes = 0, 0, 0, 0
  for i, id in ipairs(ids) do
    bytes = bytes + redis.call('HSTRLEN', KEYS[3], id)
    if i > 1 and bytes > revived then
      break
    end
    local record = redis.call('HGET', KEYS[3], id)
    if not record then
      redis.call('ZREM', KEYS[8], id) -- deleted by others
    elseif redis.call('ZSCORE', KEYS[8], id) then
      soon = soon + revive(id, record, text(ticket + i - 1), now + i - 1)
      queued = queued + 1
    end
    looked = i
  end
  wake(KEYS[7], soon, now)
  return queued, looked
end
