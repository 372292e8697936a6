-- Take a lock that was handed over to a wait.
--
-- KEYS: see queue.lua; KEYS[4] the counter of fencing tokens, absent when the lock
-- has none
-- ARGV[1] wait
-- ARGV[2] lease in ms
-- ARGV[3] value (plain) or owner (reentrant)
-- ARGV[4] info (reentrant), or ""
--
-- {1} or {1, fencing token, set aside}: ours, with a whole lease
-- {0, ticket, ms until the lock ends by itself, others in the queue}: still
-- waits
-- {3}: is not queued, enqueue again
-- {4, ...}: waits, the lock is free, and more waits are before it than one
-- script looks at
-- {-1}: the key is of another kind or mode

local mode = string.match(ARGV[1], '^[^:]+:%d+:[pr]([fu]):[1-9]%d*$')
local lease = whole(ARGV[2], 10)
if not mode or not lease or #ARGV[3] == 0 or not ARGV[4] then
  return redis.error_reply('ERR relock: claim: bad arguments')
end

local state, detail, letters = look()
if state == 'error' then
  return detail
end
if mine(ARGV[1], state, detail, lease) then
  return grant(KEYS[4], ARGV[1])
end
if state == 'reserved' and detail == ARGV[1] then
  return take(ARGV[1], state, ARGV[2], ARGV[3], ARGV[4])
end
if clash(ARGV[1], state, letters) then
  return {-1}
end
local ticket = redis.call('ZSCORE', KEYS[2], ARGV[1])
if state ~= 'free' then
  if ticket then
    redis.call('ZREM', KEYS[2], '') -- a replica refuses it: what it has may be old
    return waiting(0, ticket)
  end
  return {3}
end
if not ticket then
  hand_over() -- more than it looks at is seen to when the wait comes back
  return {3}
end
if mode == 'u' then
  local taken = take(ARGV[1], state, ARGV[2], ARGV[3], ARGV[4])
  redis.call('ZREM', KEYS[2], ARGV[1])
  return taken
end
local chosen, more = hand_over(ARGV[1])
if chosen == ARGV[1] then
  return take(ARGV[1], state, ARGV[2], ARGV[3], ARGV[4])
end
if more then
  return waiting(4, ticket)
end
return waiting(0, ticket)
