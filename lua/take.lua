-- take makes the hold of a waiter, with a whole lease, and returns its grant or
-- an error. Before that the key is free, its reservation, or an earlier hold of
-- the same call.
local function take(waiter, state, lease, body, info)
  local hold, kind, mode = string.match(waiter, '^([^:]+:%d+):([pr])([fu]):')
  local granted = grant(KEYS[4], waiter)
  if kind == 'p' then
    redis.call('SET', KEYS[1], body, 'PX', lease)
    return granted
  end
  if state ~= 'free' then
    redis.call('DEL', KEYS[1])
  end
  local fields = {body, 1, 'hold', hold, 'seq', '#1', 'info', info}
  if mode == 'f' then
    fields = {body, 1, 'hold', hold, 'seq', '#1', 'info', info, 'mode', 'f'}
  end
  redis.call('HSET', KEYS[1], unpack(fields))
  local set = redis.pcall('PEXPIRE', KEYS[1], lease)
  if type(set) == 'table' then
    -- Permission denied. Without an expiry the lock would stay for ever. So it
    -- is deleted, or replaced by a key that expires.
    local deleted = redis.pcall('DEL', KEYS[1])
    if type(deleted) == 'table' then
      redis.pcall('SET', KEYS[1], 'relock/1|denied', 'PX', lease)
    end
    return set
  end
  return granted
end

-- waiting returns the reply to a waiter that stays in the queue.
local function waiting(code, ticket)
  return {code, ticket, redis.call('PTTL', KEYS[1]), redis.call('ZCARD', KEYS[2]) - 1}
end

-- already_granted reports whether the lock is the hold of the waiter, made by
-- an earlier copy of its requests. Then the lease starts again and is never
-- shortened.
local function already_granted(waiter, state, detail, lease)
  if state ~= 'held' or detail ~= string.match(waiter, '^[^:]+:%d+') then
    return false
  end
  redis.call('PEXPIRE', KEYS[1], string.format('%.0f', math.max(redis.call('PTTL', KEYS[1]), lease)))
  return true
end

-- conflicts reports whether the lock is of another kind or mode than the
-- waiter.
local function conflicts(waiter, state, kind_mode)
  if state == 'alien' then
    return true
  end
  if #kind_mode == 2 and kind_mode ~= string.match(waiter, ':([pr][fu]):') then
    return true
  end
  return false
end
