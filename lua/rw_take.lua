-- dequeue removes a waiter that has the lock, and gives the lock its expiry.
local function dequeue(waiter)
  redis.call('ZREM', KEYS[1], 'v:' .. waiter)
  redis.call('ZREM', KEYS[2], waiter)
  return update_expiry()
end

-- take makes the hold of a waiter, in place of its reservation if it has one,
-- with a whole lease. Waiters behind it may be granted too, unless it writes.
-- It returns the grant or an error.
local function take(waiter, lease, owner, info)
  local granted = make_hold(waiter, lease, owner, info, now, redis.call('EXISTS', KEYS[1]), dequeue)
  if string.find(waiter, '^[^:]+:%d+:[^w]') and not granted.err then
    pcall(rw_hand_off)
  end
  return granted
end

-- waiting returns the reply to a waiter that stays in the queue.
local function waiting(code, ticket)
  return {code, ticket, next_end(ARGV[1]), redis.call('ZCARD', KEYS[2]) - 1}
end

-- already_granted reports whether an earlier copy of the waiter's requests has
-- made its hold. Then the lease starts again and is never shortened.
local function already_granted(waiter, lease)
  local hold, kind = string.match(waiter, '^([^:]+:%d+):(%l)')
  local entry, at = held(hold)
  if not entry or (entry == 'r' and kind == 'w') then
    return false
  end
  extend(hold, entry, at, lease)
  return true
end

-- is_forced reports whether an earlier copy of the waiter's requests has made
-- its hold, which is marked to end by force.
local function is_forced(waiter)
  if held('!' .. string.match(waiter, '^[^:]+:%d+')) then
    return true
  end
  return false
end

-- may_take reports whether a new call may acquire the lock: nobody waits or, if
-- the call and the first waiter are unfair, nobody has waited for long.
local function may_take(kind, mode, state, permits)
  if not compatible(kind, state, permits, 0) then
    return false
  end
  local head = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')
  if #head == 0 then
    return true
  end
  local waited = now - head[2]
  local _, _, _, first = string.match(head[1], waiter_name)
  if mode == 'u' and first ~= 'f' and waited >= 0 and waited <= recent then
    return true
  end
  return false
end
