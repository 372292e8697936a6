-- compatible reports whether a waiter can have a permit beside those that are
-- taken, and `added` more that this script reserves.
local function compatible(_, _, permits, added)
  return redis.call('ZCOUNT', KEYS[1], later, never) + added < tonumber(permits)
end

-- next_end returns the ms after which a waiter should poll: when an entry ends,
-- or a permit may be free after its minimum hold. Permits that others take
-- after this call end no sooner than one that the waiter would take now, unless
-- their minimum hold is shorter. The next heartbeat finds those.
local function next_end(waiter)
  local at = math.huge
  local first = redis.call('ZRANGEBYSCORE', KEYS[1], later, never, 'WITHSCORES', 'LIMIT', 0, 1)
  if #first > 0 then
    at = tonumber(first[2])
  end
  local kept = redis.call('ZREVRANGEBYSCORE', KEYS[1], '(' .. text(-now), '-inf', 'WITHSCORES', 'LIMIT', 0, 1)
  if #kept > 0 then
    at = math.min(at, -kept[2])
  end
  local keep = tonumber(string.match(tostring(waiter), ':(%d+)$'))
  if keep and keep > 0 then
    at = math.min(at, now + keep * 1000)
  end
  if at == math.huge then
    return -1
  end
  return math.ceil((at - now) / 1000)
end
