-- is_moving reports whether a Cluster moves the slot of the lock. Then a script
-- may not use a key that the server lacks, nor one that the script has deleted.
-- Only a client of a Cluster has a name that ends with '~'.
local function is_moving(waiter)
  if not string.find(waiter, '~:', 1, true) then
    return false
  end
  local refusal = redis.pcall('EXISTS', KEYS[1] .. ':none')
  return type(refusal) == 'table'
end

-- take makes the hold of a waiter, with a whole lease, and returns its grant or
-- an error. Before that the key is free, its reservation, or an earlier hold of
-- the same call.
local function take(waiter, state, lease, body, info)
  local hold, kind, mode = string.match(waiter, '^([^:]+:%d+):([pr])([fu]):')
  if kind == 'r' and state ~= 'free' and is_moving(waiter) then
    -- The reservation would be deleted, and no hold made.
    return redis.error_reply('TRYAGAIN relock: take: the slot is being moved')
  end
  local granted = grant(KEYS[4], waiter)
  if kind == 'p' then
    redis.call('SET', KEYS[1], body, 'PX', lease)
    return granted
  end
  if state ~= 'free' then
    redis.call('DEL', KEYS[1])
  end
  local fields = {body, '1', 'hold', hold, 'seq', '#1', 'info', info}
  if mode == 'f' then
    fields = {body, '1', 'hold', hold, 'seq', '#1', 'info', info, 'mode', 'f'}
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

-- waiting returns the reply to a waiter that stays in the queue, with `others`
-- if they were counted.
local function waiting(code, ticket, others)
  if not others then
    others = redis.call('ZCARD', KEYS[2]) - 1
  end
  return {code, ticket, redis.call('PTTL', KEYS[1]), others}
end

-- already_granted reports whether the lock is the hold of the waiter, made by
-- an earlier copy of its requests. Then the lease starts again and is never
-- shortened.
local function already_granted(waiter, state, detail, lease)
  if state ~= 'held' or detail ~= string.match(waiter, '^[^:]+:%d+') then
    return false
  end
  lengthen(lease)
  return true
end

-- is_forced reports whether the lock is the hold of the waiter, made by an
-- earlier copy of its requests, and marked to end by force.
local function is_forced(waiter, state, detail)
  if state == 'held' and detail == '!' .. string.match(waiter, '^[^:]+:%d+') then
    return true
  end
  return false
end

-- conflicts reports whether the lock is of another kind than the waiter.
local function conflicts(waiter, state, kind)
  if state == 'alien' then
    return true
  end
  if #kind == 1 and kind ~= string.match(waiter, ':([pr])[fu]:') then
    return true
  end
  return false
end

-- may_take reports whether a waiter may take a free lock without a hand-off:
-- nobody waits or, for an unfair one, the first waiter is itself or unfair.
local function may_take(waiter, mode)
  local first = redis.call('ZRANGE', KEYS[2], 0, 0)[1]
  if not first then
    return true
  end
  if mode == 'u' and (first == waiter or not string.find(first, ':[pr]f:')) then
    return true
  end
  return false
end
