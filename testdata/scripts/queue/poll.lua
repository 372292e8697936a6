-- Show that a client lives, put its waits back that were taken out, and hand over a lock that is free.
--
-- KEYS    see queue.lua
-- ARGV[1] client   ARGV[2] period of its polls in ms   ARGV[3], ARGV[4], ... its oldest waits, each with its ticket; 64 at most
--
-- {1, wait, ms, heard}: the wait of this client that the lock is reserved for, or the hold that it is held by, or ""; ms until the lock
-- ends by itself; how many receivers the client's channel has, -1 when it may not publish   {4, ...}: more waits are before the next one
-- that lives than one script looks at   {-1, ...}: the key is of another kind

local period = whole(ARGV[2], 1)
if #ARGV[1] == 0 or not period or #ARGV % 2 == 1 or #ARGV > 130 then
  return redis.error_reply('ERR relock: poll: bad arguments')
end
for i = 3, #ARGV, 2 do
  if string.sub(ARGV[i], 1, #ARGV[1] + 1) ~= ARGV[1] .. ':' or not string.find(ARGV[i + 1], '^%d+$') then
    return redis.error_reply('ERR relock: poll: bad arguments')
  end
end
period = period * 1000

local state, detail = look()
if state == 'error' then
  return detail
end
-- Never refused for want of memory, and lets what follows pass.
local there = stay(KEYS[3], period)
local heard = beat(ARGV[1], period)
if there == 0 then
  stay(KEYS[3], period)
end

-- Beats of clients that have left.
local some = redis.call('HRANDFIELD', KEYS[3], 2, 'WITHVALUES')
for i = 1, #some, 2 do
  local time, every = string.match(some[i + 1], '^(%d+):(%d+):[01]$')
  if time and queue_time(clock(), redis.call('HGET', KEYS[3], 'a')) - time > 12 * every then
    redis.call('HDEL', KEYS[3], some[i])
  end
end

local waits, missing, newest = {}, {}, 0
for i = 3, #ARGV, 2 do
  waits[#waits + 1] = ARGV[i]
end
if #waits > 0 then
  local scores = redis.call('ZMSCORE', KEYS[2], unpack(waits))
  for i = 1, #waits do
    local own = string.match(waits[i], '^[^:]+:%d+')
    if not scores[i] and not (state == 'reserved' and detail == waits[i]) and not (state == 'held' and detail == own) then
      missing[#missing + 1] = ARGV[2 * i + 2]
      missing[#missing + 1] = waits[i]
      newest = math.max(newest, tonumber(ARGV[2 * i + 2]))
    end
  end
end
if #missing > 0 then
  redis.call('ZADD', KEYS[2], 'NX', unpack(missing))
  local last = tonumber(redis.call('HGET', KEYS[3], 't'))
  if not last or newest > last then
    redis.call('HSET', KEYS[3], 't', text(newest))
  end
end
stay(KEYS[2], period)

local code, name = 1, ''
if state == 'free' then
  local chosen, more = hand_over()
  if more then
    code = 4
  end
  if chosen then
    name = chosen
  end
elseif state == 'alien' then
  code = -1
else
  name = detail
end
if string.sub(name, 1, #ARGV[1] + 1) ~= ARGV[1] .. ':' then
  name = ''
end
return {code, name, redis.call('PTTL', KEYS[1]), heard}
