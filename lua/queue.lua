-- What the scripts of a lock with a queue share. Their keys:
--
-- KEYS[1] the lock: a hold, or the reservation 'relock/1|w|<wait>'
-- KEYS[2] the queue: waits by ticket, which is the time of arrival at the server
-- KEYS[3] the beats: per client '<queue time>:<period>:<counted>'; t = the last ticket; a = the last beat of anyone,
--         '<server time>:<queue time>:<period>'
--
-- A wait is '<client>:<n>:<kind><mode>:<claim lease in ms>', with kind p (plain), r (reentrant), s or w (see rw.lua) and mode f (fair) or u
-- (unfair); the id of the hold that it takes is '<client>:<n>'. Messages go to the channel '<prefix><client>': '<wait>,<wait>,... <lock>',
-- 'forced:<hold> <lock>' (see force.lua), or '' for a sign of life.
-- All times are in us. Queue time goes on with the server's clock, but by no more than one period between two beats of anyone, and never
-- back: a server that stood still makes nobody look gone who could not show itself.

local reserved = 'relock/1|w|'

-- No script looks at more waits.
local most = 128

-- An unfair wait that is younger is only woken.
local short = 10000

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
  return time + math.max(0, math.min(now - at, tonumber(period)))
end

-- look says what the lock is: 'free'; 'reserved' and the wait; 'held', the id of the hold, and kind and mode of both, '' where they are not
-- known; 'alien'; 'error' and the reply.
local function look()
  local value = redis.pcall('GET', KEYS[1])
  if not value then
    return 'free', '', ''
  end
  if type(value) == 'string' then
    local mark, rest = string.match(value, '^relock/1|(%l)|(.*)$')
    if mark == 'w' then
      return 'reserved', rest, tostring(string.match(rest, ':([pr][fu]):'))
    end
    if mark == 'p' then
      return 'held', string.match(rest, '^[^|]*'), 'pu'
    end
    if mark == 'f' then
      return 'held', string.match(rest, '^[^|]*'), 'pf'
    end
    if string.sub(value, 1, 7) == 'relock/' then
      return 'held', '', ''
    end
    return 'alien', '', ''
  end
  if not string.find(value.err, 'WRONGTYPE', 1, true) then
    return 'error', value, ''
  end
  local stored = redis.pcall('HMGET', KEYS[1], 'hold', 'mode')
  if stored.err then
    if string.find(stored.err, 'WRONGTYPE', 1, true) then
      return 'alien', '', ''
    end
    return 'error', stored, ''
  end
  if not stored[1] then
    return 'alien', '', ''
  end
  if stored[2] then
    return 'held', stored[1], 'rf'
  end
  return 'held', stored[1], 'ru'
end

-- beat shows that a client lives. Whether the server sees its subscription is noted anew each time: with a note from before that was lost,
-- the client would be taken for gone as long as it is down. Returns the number of receivers, -1 when it may not publish.
local function beat(client, period)
  local now = clock()
  local time = text(queue_time(now, redis.call('HGET', KEYS[3], 'a')))
  local heard = redis.pcall('PUBLISH', string.match(KEYS[1], '^[^{]*') .. client, '')
  local counted = ':1'
  if type(heard) == 'table' then
    heard = -1
  end
  if heard < 1 then
    counted = ':0'
  end
  redis.call('HSET', KEYS[3], client, time .. ':' .. text(period) .. counted, 'a', text(now) .. ':' .. time .. ':' .. text(period))
  return heard
end

-- stay keeps queue and beats for a while after the last beat, and for as long as one who comes more rarely needs them. It comes after what is
-- written to the key: where the server's clock is set back while a script runs, Redis before 7.2 takes an expiry that was set meanwhile for
-- over, and makes anew, without one, what is written to.
local function stay(key, period)
  return redis.call('PEXPIRE', key, text(math.max(12 * period / 1000, 12000, redis.call('PTTL', key))))
end

-- shows says what a client's beat tells, and the last one of anyone: 'stale';
-- 'unseen', alive, without a subscription that the server sees; 'young' and
-- 'old' with one, by whether the beat is more than a period ago. Then, whether
-- it is.
local function shows(beaten, last, now)
  local time, period, counted = string.match(tostring(beaten), '^(%d+):(%d+):([01])$')
  if not time then
    return 'stale', true
  end
  local age = queue_time(now, last) - time
  local old = age > tonumber(period)
  if age > 2.5 * period then
    return 'stale', old
  end
  if counted == '0' then
    return 'unseen', old
  end
  if old then
    return 'old', old
  end
  return 'young', old
end

-- offer gives the lock to a wait, behind so many that go: reserved, or left free when it was only woken. It says no when its client is gone.
local function offer(wait, ticket, before, now, clients)
  local client, mode, claim = string.match(wait, '^([^:]+):%d+:[pr]([fu]):([1-9]%d*)$')
  if not client or #claim > 15 then
    return false
  end
  if not clients[client] then
    local stored = redis.call('HMGET', KEYS[3], client, 'a')
    clients[client] = shows(stored[1], stored[2], now)
  end
  if clients[client] == 'stale' then
    return false
  end
  local heard = redis.pcall('PUBLISH', string.match(KEYS[1], '^[^{]*') .. client, wait .. ' ' .. KEYS[1])
  if heard == 0 and (clients[client] == 'old' or (clients[client] == 'young' and mode == 'u')) then
    clients[client] = 'stale'
    return false
  end
  local waited = now - ticket
  if mode == 'u' and waited >= 0 and waited <= short then
    if before > 0 then
      redis.call('ZREMRANGEBYRANK', KEYS[2], 0, before - 1)
    end
    redis.call('DEL', KEYS[1])
    return true
  end
  local set = redis.pcall('SET', KEYS[1], reserved .. wait, 'PX', claim)
  if set.err then
    -- Out of memory: DEL is never refused, and lets the SET after it pass.
    redis.call('DEL', KEYS[1])
    redis.call('SET', KEYS[1], reserved .. wait, 'PX', claim)
  end
  redis.call('ZREMRANGEBYRANK', KEYS[2], 0, before)
  return true
end

-- hand_over gives a lock that is free, or that is given back, to the first wait whose client lives. With mine, the wait that asks, nothing is
-- given when it is the first: it takes. Waits of clients that are gone are taken out; those that live after all come back by their polls.
-- Returns the wait, or nil; and whether more waits are behind the ones that it looked at.
local function hand_over(mine)
  local now, clients, gone = 0, {}, 0
  for _, last in ipairs({0, most - 1}) do -- the head alone at first: mostly it lives
    local waits = redis.call('ZRANGE', KEYS[2], gone, last, 'WITHSCORES')
    if #waits == 0 then
      break
    end
    if now == 0 then
      now = clock()
    end
    for i = 1, #waits, 2 do
      if waits[i] == mine then
        redis.call('ZREMRANGEBYRANK', KEYS[2], 0, gone)
        return mine, false
      end
      if offer(waits[i], waits[i + 1], gone, now, clients) then
        return waits[i], false
      end
      gone = gone + 1
    end
  end
  if gone > 0 then
    redis.call('ZREMRANGEBYRANK', KEYS[2], 0, gone - 1)
  end
  if gone == most and redis.call('EXISTS', KEYS[2]) == 1 then
    redis.call('DEL', KEYS[1])
    return nil, true
  end
  redis.call('DEL', KEYS[1], KEYS[3])
  return nil, false
end

-- give_back ends what the lock is, for the next wait. It frees the lock whatever becomes of the queue. 1, or 4 when there are more waits
-- than one script looks at: then a cancel for nobody goes on.
local function give_back()
  if #KEYS == 1 then
    redis.call('DEL', KEYS[1])
    return 1
  end
  local done, _, more = pcall(hand_over)
  if not done then
    redis.call('DEL', KEYS[1])
  end
  if done and more then
    return 4
  end
  return 1
end
