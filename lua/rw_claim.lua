-- Take a read/write lock that was handed over to a wait.
--
-- KEYS: see rw.lua; KEYS[5] the counter of fencing tokens, absent when the lock has
-- none
-- ARGV[1] wait   ARGV[2] lease in ms   ARGV[3] owner   ARGV[4] info
--
-- {1} or {1, fencing token, set aside}: ours, with a whole lease
-- {0, ticket, ms until the lock ends by itself, others in the queue}: still
-- waits
-- {3}: is not queued, enqueue again
-- {4, ...}: waits, and more waits are before it than one script looks at
-- {-1}: the key is of another kind or mode

local mode = string.match(ARGV[1], '^[^:]+:%d+:[sw]([fu]):[1-9]%d*$')
local lease = whole(ARGV[2], 10)
if not mode or not lease or #ARGV[3] == 0 or not ARGV[4] then
  return redis.error_reply('ERR relock: rw_claim: bad arguments')
end

local state, detail = view()
if state == 'error' then
  return detail
end
if clash(mode, state, detail) then
  return {-1}
end
if mine(ARGV[1], lease) then
  return grant(KEYS[5], ARGV[1])
end
if ends('v:' .. ARGV[1]) then
  return take(ARGV[1], lease, ARGV[3], ARGV[4])
end
local ticket = redis.call('ZSCORE', KEYS[2], ARGV[1])
if not ticket then
  hand_on() -- more than it looks at is seen to when the wait comes back
  return {3}
end
redis.call('ZREM', KEYS[2], '') -- a replica refuses it: what it has may be old
local result = hand_on(ARGV[1])
if result == 'mine' then
  return take(ARGV[1], lease, ARGV[3], ARGV[4])
end
if result == 'more' then
  return waiting(4, ticket)
end
return waiting(0, ticket)
