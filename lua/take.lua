-- take makes the hold of a wait, with the whole lease, and returns its grant or an error. What is there is nothing, its reservation, or an
-- earlier hold of the same call.
local function take(wait, state, lease, body, info)
  local hold, kind, mode = string.match(wait, '^([^:]+:%d+):([pr])([fu]):')
  local granted = grant(KEYS[4], wait)
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
    -- Permission denied. Without an expiry the lock would stay for ever: it goes, or becomes something that does.
    local gone = redis.pcall('DEL', KEYS[1])
    if type(gone) == 'table' then
      redis.pcall('SET', KEYS[1], 'relock/1|denied', 'PX', lease)
    end
    return set
  end
  return granted
end

-- waiting answers a wait that stays in the queue.
local function waiting(code, ticket)
  return {code, ticket, redis.call('PTTL', KEYS[1]), redis.call('ZCARD', KEYS[2]) - 1}
end

-- mine says whether the lock is the hold of a wait, taken by an earlier copy of its requests: then the lease starts anew, and is never
-- shortened.
local function mine(wait, state, detail, lease)
  if state ~= 'held' or detail ~= string.match(wait, '^[^:]+:%d+') then
    return false
  end
  redis.call('PEXPIRE', KEYS[1], string.format('%.0f', math.max(redis.call('PTTL', KEYS[1]), lease)))
  return true
end

-- clash says whether the lock belongs to something that this wait has no place beside.
local function clash(wait, state, letters)
  if state == 'alien' then
    return true
  end
  if #letters == 2 and letters ~= string.match(wait, ':([pr][fu]):') then
    return true
  end
  return false
end
