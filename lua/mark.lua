-- unmarked returns the value of a plain lock without the mark '!' in front of
-- its hold's id, which a forced end puts there. It returns nil if there is
-- none.
local function unmarked(value)
  local head, rest = string.match(tostring(value), '^(relock/1|%l|)!(.*)$')
  if head then
    return head .. rest
  end
  return nil
end
