-- What the scripts share that put a wait into the queue.
--
-- ARGV[1] wait   ARGV[3] its ticket, "" while it has none

-- full says that a newcomer finds as many who wait as may.
local function full(limit)
  if not limit or #ARGV[3] > 0 then
    return false
  end
  if redis.call('ZCARD', KEYS[2]) < limit then
    return false
  end
  return not redis.call('ZSCORE', KEYS[2], ARGV[1]) -- an earlier copy may be there
end

-- line_up puts the wait into the queue, where it keeps its place if it has one, and shows that its client lives. Returns its ticket.
local function line_up(client, period, now)
  local stored = redis.call('HMGET', KEYS[3], client, 'a', 't')
  local newest = tonumber(stored[3])
  local ticket = ARGV[3]
  if #ticket == 0 then
    ticket = text(now)
    if newest and newest >= now then
      ticket = text(newest + 1)
    end
  end
  if redis.call('ZADD', KEYS[2], 'NX', ticket, ARGV[1]) == 0 then
    ticket = redis.call('ZSCORE', KEYS[2], ARGV[1])
  end
  if not pcall(stay, KEYS[2], period) then
    -- Permission denied. Without an expiry the queue could stay for ever: it is left as it was, and the error raised again.
    redis.call('ZREM', KEYS[2], ARGV[1])
    stay(KEYS[2], period)
  end
  -- The client's next poll comes within a period or so. A beat that is older
  -- than one would be stale before that.
  local _, old = shows(stored[1], stored[2], now)
  if old then
    beat(client, period)
  end
  if not newest or tonumber(ticket) > newest then
    redis.call('HSET', KEYS[3], 't', ticket)
  end
  if old then
    stay(KEYS[3], period)
  end
  return ticket
end
