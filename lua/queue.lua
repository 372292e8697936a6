-- Shared by the scripts of locks with a queue. Their keys:
--
-- KEYS[1] the lock: a hold, or the reservation 'relock/1|w|<waiter>'
-- KEYS[2] the queue: waiters by ticket, the time of arrival at the server
-- KEYS[3] the heartbeats: of each client '<queue time>:<period>:<subscribed>';
--   t = the last ticket; a = the last heartbeat of any client,
--   '<server time>:<queue time>:<period>'
--
-- A waiter is '<client>:<n>:<kind><mode>:<claim timeout in ms>', and may end
-- with ':<nonce>'. The kind is p (plain), r (reentrant), s or w (see rw.lua),
-- the mode f (fair) or u (unfair). Its hold has the id '<client>:<n>'. A name
-- with a nonce is published, or returned by a poll, only if the lock is
-- reserved for it: that is a grant. Messages (see message.lua) are
-- '<waiter>,<waiter>,... <lock>', 'forced:<hold or waiter> <lock>' (see
-- end.lua), or '' as a sign of life.
-- Times are in us. Queue time follows the server's clock, but advances at most
-- one period between two heartbeats, and never goes back. It does not advance
-- between two that are more than one and a half periods apart: in an outage or
-- a failover no client can send one. So no client looks dead because of that.

local reserved = 'relock/1|w|'

-- The scan limit: no script examines more waiters.
local scan_limit = 128

-- An unfair waiter that arrived less than this ago is only woken.
local recent = 10000

local function clock()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end

local function text(n)
  return string.format('%.0f', n)
end

local function queue_time(now, last)
  local at, time, period = string.match(tostring(last), '^(%d+):(%d+):(%d+)$')
  if not at then
    return 0
  end
  local passed = now - at
  if passed > 1.5 * period then
    passed = 0
  end
  return time + math.max(0, math.min(passed, tonumber(period)))
end

-- lock_state returns what the key is: 'free'; 'reserved' and the waiter;
-- 'held', the id of the hold, and its kind; 'alien' for a foreign key; 'error'
-- and the reply. The kind is '' if it is not known. A script that has read the
-- key gives the reply to that GET.
local function lock_state(value)
  if value == nil then
    value = redis.pcall('GET', KEYS[1])
  end
  if not value then
    return 'free', '', ''
  end
  if type(value) == 'string' then
    local mark, name = string.match(value, '^relock/1|(%l)|([^|]*)')
    if mark == 'w' then
      return 'reserved', name, tostring(string.match(name, ':([pr])[fu]:'))
    end
    if mark == 'p' or mark == 'f' then
      return 'held', name, 'p'
    end
    if string.sub(value, 1, 7) == 'relock/' then
      return 'held', '', ''
    end
    return 'alien', '', ''
  end
  if not string.find(value.err, 'WRONGTYPE', 1, true) then
    return 'error', value, ''
  end
  local stored = redis.pcall('HMGET', KEYS[1], 'hold')
  if stored.err then
    if string.find(stored.err, 'WRONGTYPE', 1, true) then
      return 'alien', '', ''
    end
    return 'error', stored, ''
  end
  if not stored[1] then
    return 'alien', '', ''
  end
  return 'held', stored[1], 'r'
end

-- heartbeat records that a client is alive, and whether the server sees its
-- subscription. That is recorded each time: with a note from before, a client
-- whose subscription is down would look dead. It returns the number of
-- receivers, -1 if the client may not publish.
local function heartbeat(client, period)
  local now = clock()
  local time = text(queue_time(now, redis.call('HGET', KEYS[3], 'a')))
  local receivers = message(string.match(KEYS[1], '^[^{]*'), KEYS[1], client, '')
  local subscribed = ':1'
  if type(receivers) == 'table' then
    receivers = -1
  end
  if receivers < 1 then
    subscribed = ':0'
  end
  redis.call('HSET', KEYS[3], client, time .. ':' .. text(period) .. subscribed, 'a', text(now) .. ':' .. time .. ':' .. text(period))
  return receivers
end

-- retain keeps queue and heartbeats for a while after the last heartbeat. It
-- runs after the key was written: if the server's clock is set back while a
-- script runs, Redis before 7.2 takes an expiry that was set meanwhile for
-- over, and makes the key again without one. A new key has no expiry yet.
local function retain(key, period, new)
  local left = 0
  if not new then
    left = redis.call('PTTL', key)
  end
  return redis.call('PEXPIRE', key, text(math.max(12 * period / 1000, 12000, left)))
end

-- liveness returns what a client's heartbeat says. 'stale': it is too old.
-- 'unseen': the client is alive, but the server does not see its subscription.
-- 'seen': it does. The second result reports whether the heartbeat is more than
-- a period old.
local function liveness(stored, last, now)
  local time, period, subscribed = string.match(tostring(stored), '^(%d+):(%d+):([01])$')
  if not time then
    return 'stale', true
  end
  local age = queue_time(now, last) - time
  local old = age > tonumber(period)
  if age > 2.5 * period then
    return 'stale', old
  end
  if subscribed == '0' then
    return 'unseen', old
  end
  return 'seen', old
end

-- is_gone reports whether a client is dead that a message has not reached.
-- After a failover, a restart or the move of a slot, the clients' subscriptions
-- are elsewhere for a moment. So a fair waiter keeps its turn.
local function is_gone(mode, live)
  if mode == 'u' and live == 'seen' then
    return true
  end
  return false
end

-- is_nonce reports whether a waiter's name may end like this: with nothing
-- more, or with a nonce of 16 digits.
local function is_nonce(rest)
  if #rest == 17 then
    return string.byte(rest) == 58 -- ':'
  end
  return #rest == 0
end

-- offer reserves the lock for a waiter, or only wakes it, after removing the
-- `before` stale waiters ahead of it. It reports whether the waiter's client is
-- there.
--
-- The name of a waiter with a nonce is a grant to a client that receives it.
-- Subscribers of replicas receive it too, and are not counted. So an empty
-- message shows first whether the client is there. The name comes last: if the
-- lock was freed after it, that would be under the new hold.
local function offer(waiter, ticket, before, now, clients)
  local client, mode, claim, nonce = string.match(waiter, '^([^:]+):%d+:[pr]([fu]):([1-9]%d*)(:?%x*)$')
  if not client or #claim > 15 or not is_nonce(nonce) then
    return false
  end
  if not clients[client] then
    local stored = redis.call('HMGET', KEYS[3], client, 'a')
    clients[client] = liveness(stored[1], stored[2], now)
  end
  if clients[client] == 'stale' then
    return false
  end
  local prefix, name = string.match(KEYS[1], '^[^{]*'), waiter .. ' ' .. KEYS[1]
  local first = ''
  if #nonce == 0 then
    first = name
  end
  local receivers = message(prefix, KEYS[1], client, first)
  if receivers == 0 and is_gone(mode, clients[client]) then
    clients[client] = 'stale'
    return false
  end
  local waited = now - ticket
  if #nonce == 0 and mode == 'u' and waited >= 0 and waited <= recent then
    if before > 0 then
      redis.call('ZREMRANGEBYRANK', KEYS[2], 0, before - 1)
    end
    redis.call('DEL', KEYS[1])
    return true
  end
  local set = redis.pcall('SET', KEYS[1], reserved .. waiter, 'PX', claim)
  if set.err then
    -- Memory is full. DEL is never refused, and lets the SET after it pass.
    redis.call('DEL', KEYS[1])
    redis.call('SET', KEYS[1], reserved .. waiter, 'PX', claim)
  end
  redis.call('ZREMRANGEBYRANK', KEYS[2], 0, before)
  if #nonce > 0 then
    message(prefix, KEYS[1], client, name)
  end
  return true
end

-- hand_off hands a lock that is free, or is being released, to the first waiter
-- whose client is alive. If that is the asker, nothing is reserved: the asker
-- acquires it. Waiters of dead clients are removed. If a client is alive after
-- all, its poll restores them. It returns the waiter or nil, and whether the
-- scan limit was reached.
local function hand_off(asker)
  local now, clients, dropped, from = 0, {}, 0, '0'
  -- Usually the first waiter is alive, and no more need be read. Redis takes
  -- long to format a number, so those of the usual command are text.
  for _, last in ipairs({'0', scan_limit - 1}) do
    local waiters = redis.call('ZRANGE', KEYS[2], from, last, 'WITHSCORES')
    if #waiters == 0 then
      break
    end
    if now == 0 then
      now = clock()
    end
    for i = 1, #waiters, 2 do
      if waiters[i] == asker then
        redis.call('ZREMRANGEBYRANK', KEYS[2], 0, dropped)
        return asker, false
      end
      if offer(waiters[i], waiters[i + 1], dropped, now, clients) then
        return waiters[i], false
      end
      dropped = dropped + 1
    end
    from = dropped
  end
  if dropped > 0 then
    redis.call('ZREMRANGEBYRANK', KEYS[2], 0, dropped - 1)
  end
  if dropped == scan_limit and redis.call('EXISTS', KEYS[2]) == 1 then
    redis.call('DEL', KEYS[1])
    return nil, true
  end
  redis.call('DEL', KEYS[1], KEYS[3])
  return nil, false
end

-- release frees the lock, or hands it off, whatever happens to the queue. It
-- returns 1, or 4 if the scan limit was reached: then a cancel without a waiter
-- continues.
local function release()
  if #KEYS == 1 then
    redis.call('DEL', KEYS[1])
    return 1
  end
  local done, _, more = pcall(hand_off)
  if not done then
    redis.call('DEL', KEYS[1])
  end
  if done and more then
    return 4
  end
  return 1
end
