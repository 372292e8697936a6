-- Shared by the scripts that release a read/write lock or a permit. It stands
-- in front of the functions of the queue, which Redis takes longer to define
-- than to run this.

-- expire_rest makes the lock expire with the last entry that is left. If that
-- ends after `ends`, it does so already. Behind that entry is only the mode.
local function expire_rest(ends, now)
  local last = redis.call('ZRANGE', KEYS[1], -2, -2, 'WITHSCORES')
  if #last == 0 or tonumber(last[2]) <= now then
    redis.call('DEL', KEYS[1], KEYS[4])
    return
  end
  if tonumber(last[2]) < ends then
    local left = string.format('%.0f', math.floor((last[2] - now) / 1000) + 2)
    redis.call('PEXPIRE', KEYS[1], left)
    redis.call('PEXPIRE', KEYS[4], left)
  end
end

-- leave_early is leave for a hold that has not ended, if nobody waits.
-- Otherwise it returns nil.
local function leave_early(hold)
  if #KEYS ~= 4 or redis.pcall('EXISTS', KEYS[2]) ~= 0 then
    return nil
  end
  local scores = redis.pcall('ZMSCORE', KEYS[1], 'r:' .. hold, 'w:' .. hold, '#' .. hold)
  if scores.err then
    return nil
  end
  local ends, t = tonumber(scores[1]), redis.call('TIME')
  if not ends then
    ends = tonumber(scores[2])
  end
  local now = t[1] * 1000000 + t[2]
  if not ends or ends <= now then
    return nil
  end
  -- Three entries are its own, its number and the mode.
  if scores[3] and -scores[3] <= now and redis.pcall('ZCARD', KEYS[1]) == 3 then
    local freed = redis.pcall('DEL', KEYS[1], KEYS[4])
    if type(freed) == 'number' then
      return 1
    end
  end
  local answer = leave(hold, scores[3], now)
  if answer == 2 then -- it is kept, and may end later than before
    ends = math.huge
  end
  pcall(expire_rest, ends, now)
  return answer
end
