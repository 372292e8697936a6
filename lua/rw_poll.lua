-- Record a heartbeat of a client, restore its waiters that were removed, and
-- hand off what is available of a read/write lock or a semaphore.
--
-- KEYS: see rw.lua
-- ARGV[1] client
-- ARGV[2] period of its polls in ms
-- ARGV[3], ARGV[4], ... its oldest waiters, each with its ticket; 64 at most
--
-- {1, "", ms, receivers, waiter ...}: ms until the lock expires; receivers of
--   the client's channel, -1 if it may not publish; the waiters of this client
--   that may have the lock, or that are first although it did not list them
-- {4, ...}: the scan limit was reached before a live waiter
-- {-1, ...}: the key is of another kind

local period = poll_period()
if not period then
  return redis.error_reply('ERR relock: rw_poll: bad arguments')
end

local state, detail = rw_state()
if state == 'error' then
  return detail
end
local receivers = client_heartbeat(period)
if state == 'alien' then
  retain(KEYS[3], period)
  return {-1, '', redis.call('PTTL', KEYS[1]), receivers}
end

drop_stale_heartbeats()

-- live reports whether one of the entries of a waiter exists, by the reply to a
-- ZMSCORE of five for each.
local function live(scores, n)
  for i = 5 * n - 4, 5 * n do
    if scores[i] and tonumber(scores[i]) > now then
      return true
    end
  end
  return false
end

local answer, listed, waiters, missing = {1, '', 0, receivers}, {}, {}, {}
for i = 3, #ARGV, 2 do
  listed[ARGV[i]] = ARGV[i + 1]
  waiters[#waiters + 1] = ARGV[i]
end
local entries, dequeued = {}, {}
if #waiters > 0 then
  for i, score in ipairs(redis.call('ZMSCORE', KEYS[2], unpack(waiters))) do
    if not score then
      local hold = tostring(string.match(waiters[i], '^[^:]+:%d+'))
      dequeued[#dequeued + 1] = waiters[i]
      for _, entry in ipairs({'v:' .. waiters[i], 'r:' .. hold, 'w:' .. hold, 'r:!' .. hold, 'w:!' .. hold}) do
        entries[#entries + 1] = entry
      end
    end
  end
end
if #dequeued > 0 then
  local scores = redis.call('ZMSCORE', KEYS[1], unpack(entries))
  for i, waiter in ipairs(dequeued) do
    if live(scores, i) then
      answer[#answer + 1] = waiter
    else
      missing[#missing + 1] = listed[waiter]
      missing[#missing + 1] = waiter
    end
  end
end
restore(missing)
if retain(KEYS[2], period) == 0 then
  redis.call('DEL', KEYS[3]) -- nobody is queued
else
  retain(KEYS[3], period)
end

-- A poll does much already. The other readers are granted with the claims.
reader_batch = 16
local result, names = rw_hand_off()
if result == 'more' then
  answer[1] = 4
end
-- A first waiter that its client has forgotten would block others for as long
-- as it cannot have the lock.
local first = redis.call('ZRANGE', KEYS[2], 0, 0)[1]
if not listed[first] then
  names[#names + 1] = first
end
for _, waiter in ipairs(names) do
  if string.sub(waiter, 1, #ARGV[1] + 1) == ARGV[1] .. ':' then
    answer[#answer + 1] = waiter
  end
end
answer[3] = next_end(ARGV[3])
return answer
