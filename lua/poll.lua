-- Record a heartbeat of a client, restore its waiters that were removed, and
-- hand off a free lock.
--
-- KEYS: see queue.lua
-- ARGV[1] client
-- ARGV[2] period of its polls in ms
-- ARGV[3], ARGV[4], ... its oldest waiters, each with its ticket; 64 at most
--
-- {1, name, ms, receivers}: name is the waiter of this client that the lock is
--   reserved for, or its hold, or ""; ms until the lock expires; receivers of
--   the client's channel, -1 if it may not publish
-- {2, ...}: the key is kept for its minimum hold
-- {4, ...}: the scan limit was reached before a live waiter
-- {-1, ...}: the key is of another kind

local period = poll_period()
if not period then
  return redis.error_reply('ERR relock: poll: bad arguments')
end

local state, detail = lock_state()
if state == 'error' then
  return detail
end
local name = string.gsub(detail, '^!', '') -- a marked hold is its client's, too
local receivers = client_heartbeat(period)
drop_stale_heartbeats()

local waiters, missing = {}, {}
for i = 3, #ARGV, 2 do
  waiters[#waiters + 1] = ARGV[i]
end
if #waiters > 0 then
  local scores = redis.call('ZMSCORE', KEYS[2], unpack(waiters))
  for i = 1, #waiters do
    local own = string.match(waiters[i], '^[^:]+:%d+')
    if not scores[i] and not (state == 'reserved' and detail == waiters[i]) and not (state == 'held' and name == own) then
      missing[#missing + 1] = ARGV[2 * i + 2]
      missing[#missing + 1] = waiters[i]
    end
  end
end
restore(missing)
if retain(KEYS[2], period) == 0 and state ~= 'reserved' then
  -- Nobody is queued: the last waiter left, or was granted the lock, meanwhile.
  redis.call('DEL', KEYS[3])
else
  retain(KEYS[3], period)
end

local code = 1
if state == 'free' then
  local chosen, more = hand_off()
  if more then
    code = 4
  end
  if chosen then
    name = chosen
  end
elseif state == 'alien' then
  code = -1
elseif is_kept(state, detail) then
  code = 2
end
if string.sub(name, 1, #ARGV[1] + 1) ~= ARGV[1] .. ':' then
  name = ''
end
return {code, name, redis.call('PTTL', KEYS[1]), receivers}
