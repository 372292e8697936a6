-- What the scripts of a RedLock's node share. Who waits for the lock is in a list beside it, as '<client>:<n>:q' by the time of arrival at this
-- server. A wait there is promised nothing: it asks the nodes again when it is told that this one gives the lock back, and now and then by itself.

-- wake tells the first wait whose client listens that the lock may be had. It takes it out of the list, with those before it that are gone:
-- one that hangs keeps none from being told the next time.
local function wake(places)
  local waits = redis.pcall('ZRANGE', places, 0, 127)
  if waits.err then
    return
  end
  local told = 0
  for _, wait in ipairs(waits) do
    local heard = redis.pcall('PUBLISH', string.match(KEYS[1], '^[^{]*') .. string.match(wait, '^[^:]*'), wait .. ' ' .. KEYS[1])
    if type(heard) == 'table' then
      break
    end
    told = told + 1
    if heard > 0 then
      break
    end
  end
  if told > 0 then
    redis.pcall('ZREMRANGEBYRANK', places, 0, told - 1)
  end
end
