-- Shared by the polls of all kinds of locks.
--
-- ARGV[1] client
-- ARGV[2] period of its polls in ms
-- ARGV[3], ARGV[4], ... its oldest waiters, each with its ticket; 64 at most

-- poll_period returns the period in us, or nil if the arguments are bad.
local function poll_period()
  local period = whole(ARGV[2], 1)
  if #ARGV[1] == 0 or not period or #ARGV % 2 == 1 or #ARGV > 130 then
    return nil
  end
  for i = 3, #ARGV, 2 do
    if string.sub(ARGV[i], 1, #ARGV[1] + 1) ~= ARGV[1] .. ':' or not string.find(ARGV[i + 1], '^%d+$') then
      return nil
    end
  end
  return period * 1000
end

-- client_heartbeat records a heartbeat of the client, see heartbeat.
local function client_heartbeat(period)
  -- PEXPIRE is never refused when memory is full, and lets the next write pass.
  local existed = retain(KEYS[3], period)
  local receivers = heartbeat(ARGV[1], period)
  if existed == 0 then
    retain(KEYS[3], period)
  end
  return receivers
end

-- drop_stale_heartbeats removes heartbeats of clients that have left, from a
-- sample of two.
local function drop_stale_heartbeats()
  local sample = redis.call('HRANDFIELD', KEYS[3], 2, 'WITHVALUES')
  for i = 1, #sample, 2 do
    local time, period = string.match(sample[i + 1], '^(%d+):(%d+):[01]$')
    if time and queue_time(clock(), redis.call('HGET', KEYS[3], 'a')) - time > 12 * period then
      redis.call('HDEL', KEYS[3], sample[i])
    end
  end
end

-- restore adds missing waiters to the queue again, from pairs of ticket and
-- waiter.
local function restore(missing)
  if #missing == 0 then
    return
  end
  redis.call('ZADD', KEYS[2], 'NX', unpack(missing))
  local newest = tonumber(redis.call('HGET', KEYS[3], 't'))
  if not newest then
    newest = 0
  end
  for i = 1, #missing, 2 do
    newest = math.max(newest, tonumber(missing[i]))
  end
  redis.call('HSET', KEYS[3], 't', text(newest))
end
