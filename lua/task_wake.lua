-- A task that is due within this time in us needs a receiver that knows of it.
-- Each idle receiver asks again after this time.
local period = 1000000

-- stale is the age in us of the entry of a receiver that no longer asks.
local stale = 2.5 * period

-- due_soon counts the tasks of these two sets that are due within the period.
local function due_soon(due, delayed, now)
  local limit = string.format('%.0f', now + period)
  return redis.call('ZCOUNT', due, '-inf', limit) + redis.call('ZCOUNT', delayed, '-inf', limit)
end

-- wake notifies as many idle receivers, the last one that has asked first: a
-- dead one is behind those that go on asking. One that nobody hears for, or
-- that has not asked for long, is passed over. Each asks itself, so a message
-- too many or too few only costs time.
local function wake(idle, count, now)
  if count <= 0 then
    return
  end
  local done = 0
  local youngest = redis.pcall('ZRANGE', idle, '0', '15', 'REV', 'WITHSCORES')
  for i = 1, #youngest, 2 do
    local receiver = youngest[i]
    if now - youngest[i + 1] > stale or done >= count then
      return
    end
    redis.pcall('ZREM', idle, receiver) -- no permission is no reason to fail
    local queue = string.sub(idle, 1, -3)
    local heard = message(string.match(idle, '^([^{]*)queue:{'), queue, string.match(receiver, '^[^:]*'), 'tasks:' .. receiver .. ' ' .. queue)
    if type(heard) == 'table' then
      return
    end
    if heard > 0 then
      done = done + 1
    end
  end
end

-- forget removes entries of receivers that no longer ask.
local function forget(idle, now)
  local old = redis.call('ZRANGEBYSCORE', idle, '-inf', string.format('%.0f', now - stale), 'LIMIT', 0, 16)
  if #old > 0 then
    redis.call('ZREM', idle, unpack(old))
  end
end
