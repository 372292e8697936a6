-- Shared by the scripts that acquire a read/write lock or a permit. It stands
-- in front of the functions of the queue, which Redis takes longer to define
-- than to take a lock that nobody has. Keys and entries: see rw.lua.

-- make_hold makes the hold of a waiter with a whole lease, and notes when its
-- minimum hold ends, if it may have one. expire gives the lock its expiry, and
-- returns the ms until then. It returns the grant or an error.
local function make_hold(waiter, lease, owner, info, now, existed, expire)
  local hold, _, kind, mode, _, _, keep = string.match(waiter, waiter_name)
  local entry, counts = 'r:' .. hold, '1:0|'
  if kind == 'w' then
    entry, counts = 'w:' .. hold, '0:1|'
  end
  local number = -1
  if keep then
    number = string.format('%.0f', -(now + keep * 1000))
  end
  local granted = grant(KEYS[5], waiter)
  local ends = string.format('%.0f', now + lease * 1000)
  if existed == 0 then
    redis.call('ZADD', KEYS[1], 'inf', marker .. mode, ends, entry, number, '#' .. hold)
  else -- it has a mode, and two would make it no lock
    redis.call('ZADD', KEYS[1], ends, entry, number, '#' .. hold)
  end
  local done, left = pcall(expire, waiter, lease)
  if not done then
    -- Permission denied. Without an expiry the lock would stay for ever. So it
    -- is deleted, or replaced by a key that expires.
    redis.pcall('ZREM', KEYS[1], entry, '#' .. hold)
    if existed == 0 then
      local deleted = redis.pcall('DEL', KEYS[1])
      if type(deleted) == 'table' then
        redis.pcall('SET', KEYS[1], 'relock/1|denied', 'PX', string.format('%.0f', lease))
      end
    end
    return redis.error_reply('NOPERM relock: take: the lock cannot get an expiry')
  end
  redis.pcall('HSET', KEYS[4], hold, counts .. info .. '|' .. owner)
  redis.pcall('PEXPIRE', KEYS[4], left)
  return granted
end

-- expire_alone makes the lock expire with its only entry, as update_expiry
-- does.
local function expire_alone(_, lease)
  local left = string.format('%.0f', lease + 2)
  redis.call('PEXPIRE', KEYS[1], left)
  return left
end

-- take_alone takes the lock if it has neither entry nor queue. Otherwise it
-- returns nil: then somebody may have the lock, wait, or have been granted it
-- by an earlier copy of the request.
local function take_alone(waiter, lease, owner, info)
  if redis.pcall('EXISTS', KEYS[1], KEYS[2]) ~= 0 then
    return nil
  end
  local t = redis.call('TIME')
  return make_hold(waiter, lease, owner, info, t[1] * 1000000 + t[2], 0, expire_alone)
end
