-- leave ends a hold of a read/write lock, marked or not. It has no minimum.
local function leave(hold)
  remove('r:' .. hold)
  remove('w:' .. hold)
end
