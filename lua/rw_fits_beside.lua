-- What a read/write lock has in place of semaphore_fits_beside.lua.

-- fits_beside reports whether a reader would have only readers beside it. The
-- mode is the last entry, and the one before it ends last. None may have ended,
-- so that somebody removes it.
local function fits_beside(kind, _, now)
  if kind ~= 's' or redis.call('ZCOUNT', KEYS[1], 1, string.format('%.0f', now)) > 0 then
    return false
  end
  return string.find(tostring(redis.call('ZRANGE', KEYS[1], -2, -2)[1]), '^r:') ~= nil
end
