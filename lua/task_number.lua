-- draw reserves numbers of a task queue: above all earlier ones, and at least
-- the server's time in us. Tickets, fences and times of death are such numbers.
-- It asks for the time unless it is given, and returns the first one, and the
-- time.
local function draw(counter, count, now)
  if not now then
    local t = redis.call('TIME')
    now = t[1] * 1000000 + t[2]
  end
  local first = now
  local last = tonumber(redis.call('GET', counter))
  if last and last >= now then
    first = last + 1
  end
  redis.call('SET', counter, string.format('%.0f', first + count - 1), 'PX', '2592000000')
  return first, now
end
