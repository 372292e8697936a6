-- Take several plain locks: all of them, or none.
--
-- KEYS    the locks, 1 to 100; then their counters of fencing tokens, absent when they have none
-- ARGV[1] value   ARGV[2] lease in ms   ARGV[3] number of the lock that the same call has taken by itself, 0 for none   ARGV[4] its value, or ""
-- ARGV[5] how many locks
--
-- {1} or {1, fencing token}: all are ours, with a whole lease   {0, n}: the n-th is held by others, none was taken
-- {-1, n}: the n-th is of another kind or mode

local lease, own, locks = whole(ARGV[2], 10), whole(ARGV[3], 0), whole(ARGV[5], 1)
if #ARGV[1] == 0 or not lease or not own or not locks or locks > 100 or own > locks or (own > 0 and #ARGV[4] == 0) then
  return redis.error_reply('ERR relock: multi_acquire: bad arguments')
end
if #KEYS ~= locks and #KEYS ~= 2 * locks then
  return redis.error_reply('ERR relock: multi_acquire: bad keys')
end

-- Two commands for all keys: what is there but no string is of another type.
local values, strings = redis.call('MGET', unpack(KEYS, 1, locks)), 0
for i = 1, locks do
  if values[i] then
    strings = strings + 1
  end
end
local odd = redis.call('EXISTS', unpack(KEYS, 1, locks)) > strings
for i = 1, locks do
  local held = values[i]
  if odd and not held and redis.call('EXISTS', KEYS[i]) == 1 then
    return {-1, i}
  end
  if held and held ~= ARGV[1] and (i ~= own or held ~= ARGV[4]) then
    local mark = string.sub(held, 1, 11)
    if mark == 'relock/1|f|' or (mark == 'relock/1|w|' and not string.find(held, ':pu:', 12, true)) then
      return {-1, i}
    end
    if string.sub(held, 1, 7) == 'relock/' then
      return {0, i}
    end
    return {-1, i}
  end
end

-- One token for all, above those that were drawn for any of them. One that is refused leaves no hold.
local granted = {1}
if #KEYS > locks then
  local t = redis.call('TIME')
  local drawn = t[1] * 1000000 + t[2]
  local lasts, counters = redis.call('MGET', unpack(KEYS, locks + 1)), 0
  for i = 1, locks do
    if lasts[i] then
      counters = counters + 1
    end
  end
  if redis.call('EXISTS', unpack(KEYS, locks + 1)) > counters then
    return redis.error_reply('WRONGTYPE relock: multi_acquire: the counter of fencing tokens of a lock is something else')
  end
  for i = 1, locks do
    local last = tonumber(lasts[i])
    if last and last >= drawn then
      drawn = last + 1
    end
  end
  granted[2] = string.format('%.0f', drawn)
  for i = locks + 1, #KEYS do
    redis.call('SET', KEYS[i], string.format('%.0f', drawn), 'PX', 2592000000)
  end
end

for i = 1, locks do
  if values[i] ~= ARGV[1] then
    redis.call('SET', KEYS[i], ARGV[1], 'PX', ARGV[2])
  else -- An earlier copy of this request took it: the lease starts anew, and is never shortened. Always a write, see renew.lua.
    redis.call('PEXPIRE', KEYS[i], string.format('%.0f', math.max(redis.call('PTTL', KEYS[i]), lease)))
  end
end
return granted
