-- lengthen sets the expiry of the lock to `lease` ms, unless more is left of
-- it. It is always a write: a WAIT after it asks the replicas for the last
-- write of this connection. Text is passed on as it is, as Redis takes long to
-- format a number.
local function lengthen(lease)
  local left = redis.call('PTTL', KEYS[1])
  if left > tonumber(lease) then
    lease = string.format('%.0f', left)
  end
  redis.call('PEXPIRE', KEYS[1], lease)
end
