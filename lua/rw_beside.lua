-- Readers and permits usually have company. What fits beside others is taken
-- here, in front of the functions of the queue.

-- expire_beside makes the lock expire no sooner than its new entry. It returns
-- the ms until then.
local function expire_beside(_, lease)
  local left = redis.call('PTTL', KEYS[1])
  if left < lease + 2 then
    left = lease + 2
    redis.call('PEXPIRE', KEYS[1], string.format('%.0f', left))
  end
  return string.format('%.0f', left)
end

-- take_beside makes the waiter's hold if it fits beside the entries that are
-- there, none of them the waiter's, marked or not, and there is no queue.
-- Otherwise it returns nil.
local function take_beside(waiter, lease)
  if redis.pcall('EXISTS', KEYS[2]) ~= 0 then
    return nil
  end
  local own = redis.pcall('ZMSCORE', KEYS[1],
    'r:' .. hold, 'r:!' .. hold, 'v:' .. waiter, marker .. 'u', marker .. 'f')
  if own.err or own[1] or own[2] or own[3] or not (own[4] or own[5]) then
    return nil
  end
  local t = redis.call('TIME')
  local now = t[1] * 1000000 + t[2]
  if not fits_beside(kind, permits, now) then
    return nil
  end
  return make_hold(waiter, lease, owner, info, now, 1, expire_beside)
end

local beside = take_beside(ARGV[1], lease)
if beside then
  return beside
end
