-- settle takes a wait out that has the lock, and gives the lock its expiry.
local function settle(wait)
  redis.call('ZREM', KEYS[1], 'v:' .. wait)
  redis.call('ZREM', KEYS[2], wait)
  return close()
end

-- take makes the hold of a wait, in place of its reservation if it has one, with the whole lease. Readers behind it may come along. Its
-- grant, or an error.
local function take(wait, lease, owner, info)
  local hold, kind, mode = string.match(wait, '^([^:]+:%d+):([sw])([fu]):')
  local entry, counts = 'r:' .. hold, '1:0|'
  if kind == 'w' then
    entry, counts = 'w:' .. hold, '0:1|'
  end
  local granted = grant(KEYS[5], wait)
  local there = redis.call('EXISTS', KEYS[1])
  redis.call('ZADD', KEYS[1], 'inf', 'relock/1|' .. mode, text(now + lease * 1000), entry, -1, '#' .. hold)
  local done, left = pcall(settle, wait)
  if not done then
    -- Permission denied. Without an expiry the lock would stay for ever: it goes, or becomes something that does.
    redis.pcall('ZREM', KEYS[1], entry, '#' .. hold)
    if there == 0 then
      local gone = redis.pcall('DEL', KEYS[1])
      if type(gone) == 'table' then
        redis.pcall('SET', KEYS[1], 'relock/1|denied', 'PX', text(lease))
      end
    end
    return redis.error_reply('NOPERM relock: take: the lock cannot get an expiry')
  end
  redis.pcall('HSET', KEYS[4], hold, counts .. info .. '|' .. owner)
  redis.pcall('PEXPIRE', KEYS[4], left)
  if kind == 's' then
    pcall(hand_on)
  end
  return granted
end

-- waiting answers a wait that stays in the queue.
local function waiting(code, ticket)
  return {code, ticket, redis.call('PTTL', KEYS[1]), redis.call('ZCARD', KEYS[2]) - 1}
end

-- mine says whether an earlier copy of a wait's requests has made its hold: then the lease starts anew, and is never shortened.
local function mine(wait, lease)
  local hold, kind = string.match(wait, '^([^:]+:%d+):([sw])')
  local entry, at = held(hold)
  if not entry or (entry == 'r' and kind == 'w') then
    return false
  end
  lengthen(hold, entry, at, lease)
  return true
end

-- open says whether a newcomer may take the lock: when nobody waits or, of an unfair one, nobody has waited for long.
local function open(kind, mode, state)
  if not fits(kind, state) then
    return false
  end
  local head = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')
  if #head == 0 then
    return true
  end
  local waited = now - head[2]
  if mode == 'u' and waited >= 0 and waited <= short then
    return true
  end
  return false
end
