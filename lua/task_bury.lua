-- bury makes a task a dead letter with this number, and forgets up to two that
-- are too many or too old.
local function bury(number, payloads, meta, dead, id, stored, why, most, age)
  local left = redis.call('ZCARD', dead) + 1
  local oldest = redis.call('ZRANGE', dead, 0, 1, 'WITHSCORES')
  if #oldest < 4 then
    oldest[#oldest + 1] = id
    oldest[#oldest + 1] = number
  end
  redis.call('HSET', meta, id, stored .. '\0' .. why)
  redis.call('ZADD', dead, text(number), id)
  for i = 1, #oldest, 2 do
    if left > most or tonumber(oldest[i + 1]) < number - age * 1000 then
      redis.call('ZREM', dead, oldest[i])
      redis.call('HDEL', payloads, oldest[i])
      redis.call('HDEL', meta, oldest[i])
      left = left - 1
    end
  end
end
