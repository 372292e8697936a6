-- Take a lock that is free, or wait in its queue.
--
-- KEYS    see queue.lua
-- ARGV[1] wait   ARGV[2] period of its client's beats in ms   ARGV[3] its ticket, "" while it has none
-- ARGV[4] id of a hold of the same call that may have taken the lock, or ""   ARGV[5] lease in ms   ARGV[6] value (plain) or owner (reentrant)
-- ARGV[7] info (reentrant), or ""
--
-- {1}: ours, with a whole lease   {0, ticket, ms until the lock ends by itself}: waits
-- {4, ...}: waits, the lock is free, and more waits are before it than one script looks at   {-1}: the key is of another kind or mode

local client, kind, mode = string.match(ARGV[1], '^([^:]+):%d+:([pr])([fu]):[1-9]%d*$')
local period, lease = whole(ARGV[2], 1), whole(ARGV[5], 10)
if not client or not period or not string.find(ARGV[3], '^%d*$') or not lease or #ARGV[6] == 0 or not ARGV[7] then
  return redis.error_reply('ERR relock: enqueue: bad arguments')
end
period = period * 1000

-- line_up puts the wait into the queue, where it keeps its place if it has one, and shows that its client lives. Returns its ticket.
local function line_up()
  local now = clock()
  local stored = redis.call('HMGET', KEYS[3], client, 'a', 't')
  local newest = tonumber(stored[3])
  local ticket = ARGV[3]
  if #ticket == 0 then
    ticket = text(now)
    if newest and newest >= now then
      ticket = text(newest + 1)
    end
  end
  if redis.call('ZADD', KEYS[2], 'NX', ticket, ARGV[1]) == 0 then
    ticket = redis.call('ZSCORE', KEYS[2], ARGV[1])
  end
  if not pcall(stay, KEYS[2], period) then
    -- Permission denied. Without an expiry the queue could stay for ever: it is left as it was, and the error raised again.
    redis.call('ZREM', KEYS[2], ARGV[1])
    stay(KEYS[2], period)
  end
  if shows(stored[1], stored[2], now) == 'stale' then
    beat(client, period)
    stay(KEYS[3], period)
  end
  if not newest or tonumber(ticket) > newest then
    redis.call('HSET', KEYS[3], 't', ticket)
  end
  return ticket
end

local state, detail, letters = look()
if state == 'error' then
  return detail
end
if mine(ARGV[1], state, detail, lease) then
  return {1}
end
if clash(ARGV[1], state, letters) then
  return {-1}
end
if (state == 'reserved' and detail == ARGV[1]) or (state == 'held' and #ARGV[4] > 0 and detail == ARGV[4]) then
  return take(ARGV[1], state, ARGV[5], ARGV[6], ARGV[7])
end
if state ~= 'free' then
  return {0, line_up(), redis.call('PTTL', KEYS[1])}
end
if mode == 'u' then
  local taken = take(ARGV[1], state, ARGV[5], ARGV[6], ARGV[7])
  if #ARGV[3] > 0 then
    redis.call('ZREM', KEYS[2], ARGV[1])
  end
  return taken
end
if redis.call('EXISTS', KEYS[2]) == 0 then
  return take(ARGV[1], state, ARGV[5], ARGV[6], ARGV[7])
end
local ticket = line_up()
local chosen, more = hand_over(ARGV[1])
if chosen == ARGV[1] then
  return take(ARGV[1], state, ARGV[5], ARGV[6], ARGV[7])
end
if more then
  return {4, ticket, -2}
end
return {0, ticket, redis.call('PTTL', KEYS[1])}
