-- Shared by the scripts that add a waiter to the queue.
--
-- ARGV[1] waiter
-- ARGV[3] its ticket, "" if it has none yet

-- queue_full reports whether a new waiter finds the limit reached.
local function queue_full(limit)
  if not limit or #ARGV[3] > 0 then
    return false
  end
  if redis.call('ZCARD', KEYS[2]) < limit then
    return false
  end
  -- An earlier copy of the request may have queued it.
  return not redis.call('ZSCORE', KEYS[2], ARGV[1])
end

-- join_queue adds the waiter to the queue, where it keeps its ticket if it has
-- one, and records a heartbeat of its client if one is due. It returns the
-- ticket, and how many others are in the queue.
local function join_queue(client, period, now)
  local stored = redis.call('HMGET', KEYS[3], client, 'a', 't')
  local newest = tonumber(stored[3])
  local ticket = ARGV[3]
  if #ticket == 0 then
    ticket = text(now)
    if newest and newest >= now then
      ticket = text(newest + 1)
    end
  end
  local added = redis.call('ZADD', KEYS[2], 'NX', ticket, ARGV[1])
  if added == 0 then
    ticket = redis.call('ZSCORE', KEYS[2], ARGV[1])
  end
  local others = redis.call('ZCARD', KEYS[2]) - 1
  if not pcall(retain, KEYS[2], period, others < added) then
    -- Permission denied. Without an expiry the queue could stay for ever. So
    -- the waiter is removed, and the error is raised again.
    redis.call('ZREM', KEYS[2], ARGV[1])
    retain(KEYS[2], period)
  end
  -- The client's next poll comes within about a period. A heartbeat that is
  -- older than a period would be stale before that.
  local _, old = liveness(stored[1], stored[2], now)
  if old then
    heartbeat(client, period)
  end
  if not newest or tonumber(ticket) > newest then
    redis.call('HSET', KEYS[3], 't', ticket)
  end
  if old then
    retain(KEYS[3], period)
  end
  return ticket, others
end
