-- Take a read/write lock, or wait in its queue.
--
-- KEYS: see rw.lua; KEYS[5] the counter of fencing tokens, absent when the lock has
-- none
-- ARGV[1] wait
-- ARGV[2] period of its client's beats in ms
-- ARGV[3] its ticket, "" while it has none
-- ARGV[4] ""
-- ARGV[5] lease in ms
-- ARGV[6] owner
-- ARGV[7] info
-- ARGV[8] how many may wait; absent when any number may
--
-- {1} or {1, fencing token, set aside}: ours, with a whole lease
-- {0, ticket, ms until the lock ends by itself, others in the queue}: waits
-- {4, ...}: waits, and more waits are before it than one script looks at
-- {5}: as many wait as may
-- {-1}: the key is of another kind or mode

local client, kind, mode = string.match(ARGV[1], '^([^:]+):%d+:([sw])([fu]):[1-9]%d*$')
local period, lease = whole(ARGV[2], 1), whole(ARGV[5], 10)
if not client or not period or not string.find(ARGV[3], '^%d*$') or ARGV[4] ~= '' or not lease or #ARGV[6] == 0 or not ARGV[7] then
  return redis.error_reply('ERR relock: rw_enqueue: bad arguments')
end
local limit
if ARGV[8] then
  limit = whole(ARGV[8], 1)
  if not limit then
    return redis.error_reply('ERR relock: rw_enqueue: bad arguments')
  end
end
period = period * 1000

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
  return take(ARGV[1], lease, ARGV[6], ARGV[7])
end
if open(kind, mode, state) then
  return take(ARGV[1], lease, ARGV[6], ARGV[7])
end
if full(limit) then
  local result = hand_on()
  state = view()
  if result == 'through' and fits(kind, state) then
    return take(ARGV[1], lease, ARGV[6], ARGV[7])
  end
  return {5}
end
local ticket = line_up(client, period, now)
local result = hand_on(ARGV[1])
if result == 'mine' then
  return take(ARGV[1], lease, ARGV[6], ARGV[7])
end
if result == 'more' then
  return waiting(4, ticket)
end
return waiting(0, ticket)
