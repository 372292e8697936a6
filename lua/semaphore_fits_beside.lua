-- fits_beside reports whether fewer entries are there than permits. Entries
-- that have ended count, so that somebody removes them.
local function fits_beside(_, permits)
  return redis.call('ZCOUNT', KEYS[1], 1, '9007199254740991') < tonumber(permits)
end
