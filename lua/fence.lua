-- The most tokens that a grant sets aside. A lock that is handed off in memory
-- gives them to its next holders.
local block = 63

-- token draws the next fencing token from a lock's counter: the server's time
-- in us, or the last token plus one. It also returns how many of the tokens
-- after it are set aside: those that are at most `ahead` us ahead of the clock.
-- If a counter got further ahead and was then lost, tokens would go back.
local function token(counter, ahead)
  local t = redis.call('TIME')
  local now = t[1] * 1000000 + t[2]
  local drawn = now
  local last = tonumber(redis.call('GET', counter))
  if last and last >= now then
    drawn = last + 1
  end
  local aside = math.max(0, now + ahead - drawn)
  redis.call('SET', counter, string.format('%.0f', drawn + aside), 'PX', '2592000000')
  return string.format('%.0f', drawn), aside
end
