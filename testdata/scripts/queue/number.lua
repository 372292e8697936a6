-- whole reads a whole number of at least that much, as text that is no longer than a double is exact.
local function whole(s, least)
  if (s ~= '0' and not string.find(s, '^[1-9]%d*$')) or #s > 15 or tonumber(s) < least then
    return nil
  end
  return tonumber(s)
end
