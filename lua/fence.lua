-- token draws the next fencing token from a lock's counter, and sets aside the 63 after it for holders that the lock is passed on to in
-- memory. It is the server's time in us, or one more than the last one: a counter that was lost makes no token go back.
local function token(counter)
  local t = redis.call('TIME')
  local drawn = t[1] * 1000000 + t[2]
  local last = tonumber(redis.call('GET', counter))
  if last and last >= drawn then
    drawn = last + 1
  end
  redis.call('SET', counter, string.format('%.0f', drawn + 63), 'PX', 2592000000)
  return string.format('%.0f', drawn)
end
