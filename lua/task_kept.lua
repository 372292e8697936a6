-- oldest_kept returns the lowest number of a dead letter that is kept: one of
-- the newest, and not older than age in ms.
local function oldest_kept(dead, letters, age, now)
  if letters == 0 then
    return math.huge
  end
  local from = now - age * 1000
  local first = redis.call('ZRANGE', dead, -letters, -letters, 'WITHSCORES')[2]
  if first then
    from = math.max(from, first)
  end
  return from
end

-- trim deletes dead letters that are no longer kept, and ids that are no longer
-- refused: up to 128 of each. A queue in use does that as it goes. A queue
-- without traffic has receivers that wait.
local function trim(payloads, meta, dead, done, letters, age, now)
  local before = string.format('(%.0f', oldest_kept(dead, letters, age, now))
  local old = redis.call('ZRANGEBYSCORE', dead, '-inf', before, 'LIMIT', 0, 128)
  if #old > 0 then
    redis.call('ZREM', dead, unpack(old))
    redis.call('HDEL', payloads, unpack(old))
    redis.call('HDEL', meta, unpack(old))
  end
  old = redis.call('ZRANGEBYSCORE', done, '-inf', string.format('%.0f', now), 'LIMIT', 0, 128)
  if #old > 0 then
    redis.call('ZREM', done, unpack(old))
  end
end
