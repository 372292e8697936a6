-- What the polls of all kinds of locks share.
--
-- ARGV[1] client   ARGV[2] period of its polls in ms   ARGV[3], ARGV[4], ... its oldest waits, each with its ticket; 64 at most

-- polled is the period in us, or nil for bad arguments.
local function polled()
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

-- pulse shows that the client lives, see beat.
local function pulse(period)
  -- Never refused for want of memory, and lets what follows pass.
  local there = stay(KEYS[3], period)
  local heard = beat(ARGV[1], period)
  if there == 0 then
    stay(KEYS[3], period)
  end
  return heard
end

-- sweep takes out beats of clients that have left.
local function sweep()
  local some = redis.call('HRANDFIELD', KEYS[3], 2, 'WITHVALUES')
  for i = 1, #some, 2 do
    local time, every = string.match(some[i + 1], '^(%d+):(%d+):[01]$')
    if time and queue_time(clock(), redis.call('HGET', KEYS[3], 'a')) - time > 12 * every then
      redis.call('HDEL', KEYS[3], some[i])
    end
  end
end

-- put_back gives waits their places again that the queue does not have, from pairs of ticket and wait.
local function put_back(missing)
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
