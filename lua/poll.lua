-- Show that a client lives, put its waits back that were taken out, and hand over a lock that is free.
--
-- KEYS    see queue.lua
-- ARGV[1] client   ARGV[2] period of its polls in ms   ARGV[3], ARGV[4], ... its oldest waits, each with its ticket; 64 at most
--
-- {1, wait, ms, heard}: the wait of this client that the lock is reserved for, or the hold that it is held by, or ""; ms until the lock
-- ends by itself; how many receivers the client's channel has, -1 when it may not publish   {4, ...}: more waits are before the next one
-- that lives than one script looks at   {-1, ...}: the key is of another kind

local period = polled()
if not period then
  return redis.error_reply('ERR relock: poll: bad arguments')
end

local state, detail = look()
if state == 'error' then
  return detail
end
local heard = pulse(period)
sweep()

local waits, missing = {}, {}
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
    end
  end
end
put_back(missing)
if stay(KEYS[2], period) == 0 and state ~= 'reserved' then
  redis.call('DEL', KEYS[3]) -- nobody is queued: this poll has crossed the end of the last wait, or its grant
else
  stay(KEYS[3], period)
end

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
