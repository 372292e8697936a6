-- Shared by the scripts that end a hold of a read/write lock or a permit.

-- leave ends a hold, marked or not. It keeps a permit until its minimum hold is
-- over. One that was forced has another name then, so that its holder's release
-- finds out. It returns the answer of the holder's release.
local function leave(hold, number, now, forced)
  -- ZREM is never refused when memory is full, and lets the ZADD after it pass.
  redis.call('ZREM', KEYS[1], 'r:' .. hold, 'w:' .. hold, '#' .. hold, 'f:' .. hold)
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
