-- Acquire the lock on one node of a RedLock. A server that was started too
-- recently may have forgotten a hold, and is refused.
--
-- KEYS[1] the lock
-- KEYS[2] the counter of fencing tokens, absent without fencing
-- KEYS[2] or KEYS[3] the list of waiters, see redlock_wake.lua, for a call that
--   waits
-- ARGV[1] value
-- ARGV[2] lease in ms
-- ARGV[3] how long the server must have been up, in s
-- ARGV[4] waiter, "" for a call that does not wait
-- ARGV[5] ms until it asks again, at the latest
--
-- {1, server} or {1, server, fencing token}: acquired, with a whole lease
-- {0, server}: held by others
-- {2, server, ms}: the same; the key is kept for its minimum hold
-- {6, server, s}: the server has been up for s only
-- {-1, server, key}: the key is of another kind, see other_kind.lua
-- {0, server, ms, receivers, holder}, if the call waits: what is left of the
--   other lease; receivers of the client's channel, -1 if it may not publish,
--   -2 if the waiter is in no list; the name of the RedLock's hold, which is
--   the same on all nodes, or "". 2 in place of 0 if the key is kept
--
-- A replica answers READONLY, whatever it has of the lock: it grants none.
--
-- server is the server's run id, which is new at each start.

local lease, least, period = whole(ARGV[2], 10), whole(ARGV[3], 0), whole(ARGV[5], 0)
if #ARGV[1] == 0 or not lease or not least or not period then
  return redis.error_reply('ERR relock: redlock_acquire: bad arguments')
end

local counter, list_key, client = KEYS[2], nil, nil
if #ARGV[4] > 0 then
  client = string.match(ARGV[4], '^([^:]+):%d+:q$')
  if not client then
    return redis.error_reply('ERR relock: redlock_acquire: bad waiter')
  end
  list_key = KEYS[#KEYS]
  if #KEYS == 2 then
    counter = nil
  end
end

local info = redis.call('INFO', 'server')
local server = string.match(info, 'run_id:(%x+)')
-- Without an uptime this is an error. If the clock was set back to before its
-- start, the server counts as just started.
local up = math.max(0, tonumber(string.match(info, 'uptime_in_seconds:(%-?%d+)')))
if up < least then
  return {6, server, up}
end

-- grant returns the reply to a call that has the lock.
local function grant()
  if counter then
    return {1, server, (token(counter, 0))}
  end
  return {1, server}
end

-- leave_list removes the waiter from the list. It runs after the write that a
-- full memory refuses: if it ran first, that write would pass.
local function leave_list()
  if list_key then
    redis.pcall('ZREM', list_key, ARGV[4])
  end
end

-- join_list adds the waiter to the list, where it keeps its place. It returns
-- how many receive a message to its client. The message also shows the client
-- that its subscription works.
local function join_list()
  local now = redis.pcall('TIME')
  if now.err then
    return -2
  end
  local added = redis.pcall('ZADD', list_key, 'NX', string.format('%.0f', now[1] * 1000000 + now[2]), ARGV[4])
  if type(added) == 'table' then
    return -2
  end
  local ttl = math.max(12 * period, 12000)
  if redis.call('PTTL', list_key) < ttl then
    local kept = redis.pcall('PEXPIRE', list_key, string.format('%.0f', ttl))
    if type(kept) == 'table' then -- without an expiry it could stay for ever
      redis.call('ZREM', list_key, ARGV[4])
      return -2
    end
  end
  local receivers = message(string.match(KEYS[1], '^[^{]*'), KEYS[1], client, '')
  if type(receivers) == 'table' then
    return -1
  end
  return receivers
end

-- others returns the reply if others hold the lock.
local function others(held)
  local code = 0
  if string.sub(held, 10, 10) == 'k' then
    code = 2
  end
  if not list_key then
    if code == 2 then
      return absent({2, server, redis.call('PTTL', KEYS[1])})
    end
    return absent({0, server})
  end
  local holder = string.match(held, '^relock/1|[pk]|!?([^|]*)%.%d+|')
  if not holder then
    holder = ''
  end
  return absent({code, server, redis.call('PTTL', KEYS[1]), join_list(), holder})
end

local held = redis.pcall('GET', KEYS[1])
if type(held) == 'table' then
  if string.find(held.err, 'WRONGTYPE', 1, true) then
    return absent({-1, server, other_kind(KEYS[1])})
  end
  return held
end
if held == ARGV[1] then
  -- An earlier copy of this request acquired it. The lease starts again and is
  -- never shortened. This is always a write, see lengthen.lua.
  redis.call('PEXPIRE', KEYS[1], string.format('%.0f', math.max(redis.call('PTTL', KEYS[1]), lease)))
  leave_list()
  return grant()
end
if held then
  if string.sub(held, 1, 11) == 'relock/1|w|' and not string.find(held, ':p', 12, true) then
    return absent({-1, server, other_kind(KEYS[1])})
  end
  if string.sub(held, 1, 7) == 'relock/' then
    return others(held)
  end
  return absent({-1, server, other_kind(KEYS[1])})
end

-- If the token is refused, there must be no hold.
local granted = grant()
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
leave_list()
return granted
