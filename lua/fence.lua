-- The most tokens that a grant sets aside. A lock that is passed on in memory
-- gives them to its next holders.
local block = 63

-- token draws the next fencing token from a lock's counter: the server's time
-- in us, or one more than the last one. It also says how many of those after it
-- are set aside: as far as they are at most that many us ahead of the clock. A
-- counter that gets further ahead would let tokens go back when it is lost.
local function token(counter, ahead)
  local t = redis.call('TIME')
  local now = t[1] * 1000000 + t[2]
  local drawn = now
  local last = tonumber(redis.call('GET', counter))
  if last and last >= now then
    drawn = last + 1
  end
  local aside = math.max(0, now + ahead - drawn)
  redis.call('SET', counter, string.format('%.0f', drawn + aside), 'PX', 2592000000)
  return string.format('%.0f', drawn), aside
end
