-- is_kept reports whether a lock that is held, by lock_state, is kept for a
-- minimum hold.
local function is_kept(state, detail)
  if state ~= 'held' then
    return false
  end
  if #detail == 0 then
    local value = redis.pcall('GET', KEYS[1])
    return string.sub(tostring(value), 10, 10) == 'k'
  end
  return string.sub(detail, 1, 5) == 'kept:'
end
