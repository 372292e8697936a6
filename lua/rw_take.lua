-- dequeue removes a waiter that has the lock, and gives the lock its expiry.
local function dequeue(waiter)
  redis.call('ZREM', KEYS[1], 'v:' .. waiter)
  redis.call('ZREM', KEYS[2], waiter)
  return update_expiry()
end

-- take makes the hold of a waiter, in place of its reservation if it has one,
-- with a whole lease. Readers behind it may be granted too. It returns the
-- grant or an error.
local function take(waiter, lease, owner, info)
  local hold, kind, mode = string.match(waiter, '^([^:]+:%d+):([sw])([fu]):')
  local entry, counts = 'r:' .. hold, '1:0|'
  if kind == 'w' then
    entry, counts = 'w:' .. hold, '0:1|'
  end
  local granted = grant(KEYS[5], waiter)
  local existed = redis.call('EXISTS', KEYS[1])
  redis.call('ZADD', KEYS[1], 'inf', 'relock/1|' .. mode, text(now + lease * 1000), entry, -1, '#' .. hold)
  local done, left = pcall(dequeue, waiter)
  if not done then
    -- Permission denied. Without an expiry the lock would stay for ever. So it
    -- is deleted, or replaced by a key that expires.
    redis.pcall('ZREM', KEYS[1], entry, '#' .. hold)
    if existed == 0 then
      local deleted = redis.pcall('DEL', KEYS[1])
      if type(deleted) == 'table' then
        redis.pcall('SET', KEYS[1], 'relock/1|denied', 'PX', text(lease))
      end
    end
    return redis.error_reply('NOPERM relock: take: the lock cannot get an expiry')
  end
  redis.pcall('HSET', KEYS[4], hold, counts .. info .. '|' .. owner)
  redis.pcall('PEXPIRE', KEYS[4], left)
  if kind == 's' then
    pcall(rw_hand_off)
  end
  return granted
end

-- waiting returns the reply to a waiter that stays in the queue.
local function waiting(code, ticket)
  return {code, ticket, redis.call('PTTL', KEYS[1]), redis.call('ZCARD', KEYS[2]) - 1}
end

-- already_granted reports whether an earlier copy of the waiter's requests has
-- made its hold. Then the lease starts again and is never shortened.
local function already_granted(waiter, lease)
  local hold, kind = string.match(waiter, '^([^:]+:%d+):([sw])')
  local entry, at = held(hold)
  if not entry or (entry == 'r' and kind == 'w') then
    return false
  end
  extend(hold, entry, at, lease)
  return true
end

-- may_take reports whether a new call may acquire the lock: nobody waits or, if
-- it is unfair, nobody has waited for long.
local function may_take(kind, mode, state)
  if not compatible(kind, state) then
    return false
  end
  local head = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')
  if #head == 0 then
    return true
  end
  local waited = now - head[2]
  if mode == 'u' and waited >= 0 and waited <= recent then
    return true
  end
  return false
end
