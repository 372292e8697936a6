-- whole parses a whole number of at least `least`. Its text must be short
-- enough for a double to be exact.
local function whole(s, least)
  local n = tonumber(s)
  if (s ~= '0' and not string.find(s, '^[1-9]%d*$')) or #s > 15 or n < least then
    return nil
  end
  return n
end
