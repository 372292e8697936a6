-- Release a permit that the caller holds. It stays taken until the end of its
-- minimum hold. What is free then is handed off.
--
-- KEYS: see semaphore_kind.lua; only the first if there can be no queue
-- ARGV[1] hold id
--
-- 1: released
-- 2: released, now or before, and kept for its minimum hold
-- 4: as 1, but the scan limit was reached before a live waiter
-- 9: the hold was marked to end by force, and is released
-- 0: not held by the caller
-- -1: the key is of another kind

if #ARGV[1] == 0 then
  return redis.error_reply('ERR relock: semaphore_release: bad arguments')
end

-- expire_rest makes the lock expire with the last entry that is left. The one
-- behind that is the mode.
local function expire_rest(now)
  local last = redis.call('ZRANGE', KEYS[1], -2, -2, 'WITHSCORES')
  if #last == 0 or tonumber(last[2]) <= now then
    redis.call('DEL', KEYS[1], KEYS[4])
    return
  end
  local left = string.format('%.0f', math.floor((last[2] - now) / 1000) + 2)
  redis.call('PEXPIRE', KEYS[1], left)
  redis.call('PEXPIRE', KEYS[4], left)
end

-- leave_early is leave if nobody waits, in front of the functions of the queue.
-- Otherwise it returns nil.
local function leave_early(hold)
  if #KEYS ~= 4 or redis.pcall('EXISTS', KEYS[2]) ~= 0 then
    return nil
  end
  local scores = redis.pcall('ZMSCORE', KEYS[1], 'r:' .. hold, '#' .. hold)
  if scores.err or not scores[1] then
    return nil
  end
  local t = redis.call('TIME')
  local now = t[1] * 1000000 + t[2]
  if tonumber(scores[1]) <= now then
    return nil
  end
  -- Three entries are its own, its number and the mode.
  if scores[2] and -scores[2] <= now and redis.pcall('ZCARD', KEYS[1]) == 3 then
    local freed = redis.pcall('DEL', KEYS[1], KEYS[4])
    if type(freed) == 'number' then
      return 1
    end
  end
  local answer = leave(hold, scores[2], now)
  pcall(expire_rest, now)
  return answer
end

local early = leave_early(ARGV[1])
if early then
  return early
end
