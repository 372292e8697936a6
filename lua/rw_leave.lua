-- Shared by the scripts that take a permit back.

-- leave takes a permit back, marked or not, and keeps it until its minimum hold
-- is over. One that was forced has another name, so that its holder's release
-- finds out. It returns the answer.
local function leave(hold, number, now, forced)
  -- ZREM is never refused when memory is full, and lets the ZADD after it pass.
  redis.call('ZREM', KEYS[1], 'r:' .. hold, '#' .. hold, 'f:' .. hold)
  hold = string.gsub(hold, '^!', '')
  if KEYS[4] then
    redis.pcall('HDEL', KEYS[4], hold)
  end
  if number and -number > now then
    local entry = 'k:' .. hold
    if forced and not redis.call('ZSCORE', KEYS[1], entry) then
      entry = 'f:' .. hold
    end
    redis.call('ZADD', KEYS[1], string.format('%.0f', -number), entry)
    return 2
  end
  return 1
end
