-- Take the lock of one node of a RedLock, unless its server was started so short a time ago that it may have forgotten one.
--
-- KEYS[1] the lock   KEYS[2] the counter of fencing tokens, absent when the lock has none
-- KEYS[2] or KEYS[3] the list of waits, see redlock_wake.lua, of a call that waits
-- ARGV[1] value   ARGV[2] lease in ms   ARGV[3] how long the server has to be up, in s
-- ARGV[4] wait, "" of a call that does not   ARGV[5] ms after which it asks again, at the latest
--
-- {1, server} or {1, server, fencing token}: ours, with a whole lease   {0, server}: held by others   {6, server, s}: the server has not been up for longer than that
-- {-1, server}: the key is of another kind or mode
-- {0, server, ms, listeners, holder}, to a call that waits: how much is left of the lease that others have; who would hear a message to the
-- client now, -1 when it may not send one, -2 when the wait is in no list; and what all nodes call a hold of a RedLock, "" where they do not
--
-- server is what the server calls itself, anew at each start.

local lease, least, period = whole(ARGV[2], 10), whole(ARGV[3], 0), whole(ARGV[5], 0)
if #ARGV[1] == 0 or not lease or not least or not period then
  return redis.error_reply('ERR relock: redlock_acquire: bad arguments')
end

local counter, places, client = KEYS[2], nil, nil
if #ARGV[4] > 0 then
  client = string.match(ARGV[4], '^([^:]+):%d+:q$')
  if not client then
    return redis.error_reply('ERR relock: redlock_acquire: bad wait')
  end
  places = KEYS[#KEYS]
  if #KEYS == 2 then
    counter = nil
  end
end

local info = redis.call('INFO', 'server')
local server = string.match(info, 'run_id:(%x+)')
-- A server that does not say makes this an error; where the clock was set back to before its start, it has just started.
local up = math.max(0, tonumber(string.match(info, 'uptime_in_seconds:(%-?%d+)')))
if up < least then
  return {6, server, up}
end

-- grant is the answer to one that has the lock.
local function grant()
  if counter then
    return {1, server, (token(counter, 0))}
  end
  return {1, server}
end

-- unlist takes the wait out of the list. It comes after the write that full memory refuses: the first write lets the others pass.
local function unlist()
  if places then
    redis.pcall('ZREM', places, ARGV[4])
  end
end

-- list puts the wait into the list, where it keeps its place, and says how many hear what is sent to its client, which also shows the client
-- that its subscription lives.
local function list()
  local now = redis.pcall('TIME')
  if now.err then
    return -2
  end
  local added = redis.pcall('ZADD', places, 'NX', string.format('%.0f', now[1] * 1000000 + now[2]), ARGV[4])
  if type(added) == 'table' then
    return -2
  end
  local stay = math.max(12 * period, 12000)
  if redis.call('PTTL', places) < stay then
    local kept = redis.pcall('PEXPIRE', places, string.format('%.0f', stay))
    if type(kept) == 'table' then -- it could stay for ever
      redis.call('ZREM', places, ARGV[4])
      return -2
    end
  end
  local heard = redis.pcall('PUBLISH', string.match(KEYS[1], '^[^{]*') .. client, '')
  if type(heard) == 'table' then
    return -1
  end
  return heard
end

-- taken is the answer to one that finds others.
local function taken(held)
  if not places then
    return {0, server}
  end
  local holder = string.match(held, '^relock/1|[pk]|([^|]*)%.%d+|')
  if not holder then
    holder = ''
  end
  return {0, server, redis.call('PTTL', KEYS[1]), list(), holder}
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
  unlist()
  return grant()
end
if held then
  local mark = string.sub(held, 1, 11)
  if mark == 'relock/1|f|' or (mark == 'relock/1|w|' and not string.find(held, ':pu:', 12, true)) then
    return {-1, server}
  end
  if string.sub(held, 1, 7) == 'relock/' then
    return taken(held)
  end
  return {-1, server}
end

-- A token that is refused leaves no hold.
local granted = grant()
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
unlist()
return granted
