-- What the scripts of a read/write lock share, on top of queue.lua: queue, beats and messages are the same. Their keys:
--
-- KEYS[1] the lock: a sorted set, whose entries end at their score, each by itself, which is a time of the server in us:
--         'r:<hold>' reads   'w:<hold>' writes, and may read as well   'v:<wait>' it is reserved for that wait
--         and besides '#<hold>', the number of the hold's newest change, below 0; and, for ever, 'relock/1|f' (fair) or 'relock/1|u'
-- KEYS[2] the queue   KEYS[3] the beats
-- KEYS[4] for people, of each hold '<reads>:<writes>|<info>|<owner>'. Nothing is decided by it
--
-- What writes, or is reserved for one who will, has no other entry beside it, not even one that has ended. A wait is of the kind s (shared:
-- it reads) or w (it writes). A script that is given the first key alone has no queue.

-- Above all times.
local never = '9007199254740991'

-- No script reserves the lock for more readers, or takes out more entries that have ended.
local batch = 64

local now = clock()
local later = '(' .. text(now)

-- ends is when an entry does; nil when it is not there, or has ended.
local function ends(entry)
  local at = redis.call('ZSCORE', KEYS[1], entry)
  if at and tonumber(at) > now then
    return tonumber(at)
  end
  return nil
end

-- held says whether a hold is there: 'r' or 'w', and when it ends; else nil.
local function held(hold)
  local at = ends('w:' .. hold)
  if at then
    return 'w', at
  end
  at = ends('r:' .. hold)
  if at then
    return 'r', at
  end
  return nil
end

-- newest is the number of the newest change of a hold that is there.
local function newest(hold)
  return -redis.call('ZSCORE', KEYS[1], '#' .. hold)
end

-- clear takes away a lock of which everything has ended.
local function clear()
  redis.pcall('DEL', KEYS[1])
  if KEYS[4] then
    redis.pcall('DEL', KEYS[4])
  end
end

-- view says what the lock is: 'free', 'read', 'write', 'alien', or 'error' and the reply; and the mode of one that is not free.
local function view()
  local last = redis.pcall('ZRANGE', KEYS[1], -1, -1)
  if last.err then
    if string.find(last.err, 'WRONGTYPE', 1, true) then
      return 'alien', ''
    end
    return 'error', last
  end
  if #last == 0 then
    return 'free', ''
  end
  local mode = string.match(last[1], '^relock/1|([fu])$')
  if not mode then
    return 'alien', ''
  end
  local first = redis.call('ZRANGEBYSCORE', KEYS[1], later, never, 'LIMIT', 0, 1)[1]
  if not first then
    clear()
    return 'free', ''
  end
  if string.find(first, '^w:') or string.find(first, '^v:[^:]+:%d+:w') then
    return 'write', mode
  end
  return 'read', mode
end

-- clash says whether the lock belongs to something that a wait of this mode has no place beside.
local function clash(mode, state, other)
  if state == 'alien' then
    return true
  end
  if state ~= 'free' and other ~= mode then
    return true
  end
  return false
end

-- fits says whether a wait of the kind can have the lock beside what is there.
local function fits(kind, state)
  if state == 'free' or (state == 'read' and kind == 's') then
    return true
  end
  return false
end

-- note keeps for people how many levels a hold has.
local function note(hold, reads, writes)
  if not KEYS[4] then
    return
  end
  local about = redis.pcall('HGET', KEYS[4], hold)
  if type(about) == 'string' then
    redis.pcall('HSET', KEYS[4], hold, reads .. ':' .. writes .. tostring(string.match(about, '|.*$')))
  end
end

-- forget takes an entry out, with all that is known of the hold.
local function forget(entry)
  local hold = string.sub(entry, 3)
  redis.call('ZREM', KEYS[1], entry, '#' .. hold)
  if KEYS[4] then
    redis.pcall('HDEL', KEYS[4], hold)
  end
end

-- close takes out what has ended, and has the lock end with its last entry. Returns in how many ms.
local function close()
  for _, entry in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], 1, text(now), 'LIMIT', 0, batch)) do
    forget(entry)
  end
  local last = redis.call('ZREVRANGEBYSCORE', KEYS[1], never, later, 'WITHSCORES', 'LIMIT', 0, 1)
  if #last == 0 then
    clear()
    return '0'
  end
  local left = text(math.floor((last[2] - now) / 1000) + 2)
  redis.call('PEXPIRE', KEYS[1], left)
  if KEYS[4] then
    redis.pcall('PEXPIRE', KEYS[4], left)
  end
  return left
end

-- lengthen has a hold end no sooner than in so many ms.
local function lengthen(hold, entry, at, lease)
  if at < now + lease * 1000 then
    -- ZREM is never refused for want of memory, and lets the ZADD after it pass.
    redis.call('ZREM', KEYS[1], '')
    redis.call('ZADD', KEYS[1], text(now + lease * 1000), entry .. ':' .. hold)
  end
  close()
end
