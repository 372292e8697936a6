-- Take the lock of one node of a RedLock, unless its server was started so short a time ago that it may have forgotten one.
--
-- KEYS[1] the lock   KEYS[2] the counter of fencing tokens, absent when the lock has none
-- ARGV[1] value   ARGV[2] lease in ms   ARGV[3] how long the server has to be up, in s
--
-- {1, server} or {1, server, fencing token}: ours, with a whole lease   {0, server}: held by others   {6, server, s}: the server has not been up for longer than that
-- {-1, server}: the key is of another kind or mode
--
-- server is what the server calls itself, anew at each start.

local lease, least = whole(ARGV[2], 10), whole(ARGV[3], 0)
if #ARGV[1] == 0 or not lease or not least then
  return redis.error_reply('ERR relock: redlock_acquire: bad arguments')
end

local info = redis.call('INFO', 'server')
local server = string.match(info, 'run_id:(%x+)')
local up = tonumber(string.match(info, 'uptime_in_seconds:(%d+)')) -- a server that does not say makes this an error
if up < least then
  return {6, server, up}
end

-- grant is the answer to one that has the lock.
local function grant()
  if KEYS[2] then
    return {1, server, token(KEYS[2])}
  end
  return {1, server}
end

local held = redis.pcall('GET', KEYS[1])
if type(held) == 'table' then
  if string.find(held.err, 'WRONGTYPE', 1, true) then
    return {-1, server}
  end
  return held
end
if held == ARGV[1] then
  -- An earlier copy of this request took it: the lease starts anew, and is never shortened. Always a write, see renew.lua.
  redis.call('PEXPIRE', KEYS[1], string.format('%.0f', math.max(redis.call('PTTL', KEYS[1]), lease)))
  return grant()
end
if held then
  local mark = string.sub(held, 1, 11)
  if mark == 'relock/1|f|' or (mark == 'relock/1|w|' and not string.find(held, ':pu:', 12, true)) then
    return {-1, server}
  end
  if string.sub(held, 1, 7) == 'relock/' then
    return {0, server}
  end
  return {-1, server}
end

-- A token that is refused leaves no hold.
local granted = grant()
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return granted
