-- Show that a client lives, put its waits back that were taken out, and hand over what can be had of a read/write lock.
--
-- KEYS    see rw.lua
-- ARGV[1] client   ARGV[2] period of its polls in ms   ARGV[3], ARGV[4], ... its oldest waits, each with its ticket; 64 at most
--
-- {1, "", ms, heard, wait ...}: ms until the lock ends by itself; how many receivers the client's channel has, -1 when it may not publish;
-- the waits of this client that may have the lock, or that it did not list although they are the first   {4, ...}: more waits are before the
-- next one that lives than one script looks at   {-1, ...}: the key is of another kind

local period = polled()
if not period then
  return redis.error_reply('ERR relock: rw_poll: bad arguments')
end

local state, detail = view()
if state == 'error' then
  return detail
end
local heard = pulse(period)
if state == 'alien' then
  stay(KEYS[3], period)
  return {-1, '', redis.call('PTTL', KEYS[1]), heard}
end

sweep()

-- live says which of the entries of a wait are there, in the answer to a ZMSCORE of three for each.
local function live(scores, n)
  for i = 3 * n - 2, 3 * n do
    if scores[i] and tonumber(scores[i]) > now then
      return true
    end
  end
  return false
end

local answer, listed, waits, missing = {1, '', 0, heard}, {}, {}, {}
for i = 3, #ARGV, 2 do
  listed[ARGV[i]] = ARGV[i + 1]
  waits[#waits + 1] = ARGV[i]
end
local entries, out = {}, {}
if #waits > 0 then
  for i, score in ipairs(redis.call('ZMSCORE', KEYS[2], unpack(waits))) do
    if not score then
      local hold = tostring(string.match(waits[i], '^[^:]+:%d+'))
      out[#out + 1] = waits[i]
      entries[#entries + 1] = 'v:' .. waits[i]
      entries[#entries + 1] = 'r:' .. hold
      entries[#entries + 1] = 'w:' .. hold
    end
  end
end
if #out > 0 then
  local scores = redis.call('ZMSCORE', KEYS[1], unpack(entries))
  for i, wait in ipairs(out) do
    if live(scores, i) then
      answer[#answer + 1] = wait
    else
      missing[#missing + 1] = listed[wait]
      missing[#missing + 1] = wait
    end
  end
end
put_back(missing)
if stay(KEYS[2], period) == 0 then
  redis.call('DEL', KEYS[3]) -- nobody is queued
else
  stay(KEYS[3], period)
end

together = 16 -- a poll has enough to do; the others come along with the claims
local result, names = hand_on()
if result == 'more' then
  answer[1] = 4
end
-- A first one that its client has forgotten would keep others waiting for as long as it cannot have the lock.
local first = redis.call('ZRANGE', KEYS[2], 0, 0)[1]
if not listed[first] then
  names[#names + 1] = first
end
for _, wait in ipairs(names) do
  if string.sub(wait, 1, #ARGV[1] + 1) == ARGV[1] .. ':' then
    answer[#answer + 1] = wait
  end
end
answer[3] = redis.call('PTTL', KEYS[1])
return answer
