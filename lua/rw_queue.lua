-- What those scripts of a read/write lock share that take it or pass it on.

-- What the beats of clients show, see shows.
local shown = {}

-- Clients that were told of one wait, and the others that they are to be told of: a client gets one message for all of those.
local told = {}

local prefix = string.match(KEYS[1], '^[^{]*')

-- For so many readers the lock is reserved at once.
local together = batch

local function lives(client)
  if not shown[client] then
    local stored = redis.call('HMGET', KEYS[3], client, 'a')
    shown[client] = shows(stored[1], stored[2], now)
  end
  return shown[client] ~= 'stale'
end

-- place says what becomes of the first wait of the queue, while the lock is free or read: 'mine', when it is the one that asks; 'gone', when
-- its client is; 'stopped', when it has to wait on; else its kind, how long it may take, and its mode: it was told that the lock is reserved.
local function place(wait, mine, state)
  local client, kind, mode, claim = string.match(wait, '^([^:]+):%d+:([sw])([fu]):([1-9]%d*)$')
  if not client or #claim > 15 then
    return 'gone'
  end
  if wait ~= mine and not lives(client) then
    return 'gone'
  end
  if not fits(kind, state) then
    return 'stopped'
  end
  if wait == mine then
    return 'mine'
  end
  if told[client] then
    table.insert(told[client], wait)
    return kind, claim, mode
  end
  local heard = redis.pcall('PUBLISH', prefix .. client, wait .. ' ' .. KEYS[1])
  if heard == 0 and (shown[client] == 'old' or (shown[client] == 'young' and mode == 'u')) then
    shown[client] = 'stale'
    return 'gone'
  end
  told[client] = {}
  return kind, claim, mode
end

-- reserve keeps the lock for waits, as pairs of a time and an entry.
local function reserve(pairs_of, mode)
  if redis.call('EXISTS', KEYS[1]) == 0 then
    redis.call('PEXPIRE', KEYS[1], 1) -- of no effect; but where it is denied there must be no lock, which would stay for ever
  end
  redis.call('ZADD', KEYS[1], 'inf', 'relock/1|' .. mode, unpack(pairs_of))
  close()
  for client, waits in pairs(told) do
    if #waits > 0 then
      redis.pcall('PUBLISH', prefix .. client, table.concat(waits, ',') .. ' ' .. KEYS[1])
      told[client] = {}
    end
  end
end

-- hand_on gives what can be had of the lock to the first waits whose clients live: to one writer, or to readers in a row. With mine, the
-- wait that asks, nothing is reserved for it: it takes. Waits of clients that are gone are taken out; those that live after all come back
-- by their polls. Returns 'mine'; 'stopped', when somebody who lives comes first; 'through', when nobody does; 'more', when nobody does of
-- those that one script looks at. And the waits for which the lock is reserved now.
local function hand_on(mine)
  local state, mode = view()
  local result, passed, names, entries = 'through', 0, {}, {}
  if state ~= 'free' and state ~= 'read' then
    return 'stopped', names
  end
  for _, last in ipairs({0, most - 1}) do -- the head alone at first: mostly it decides
    for _, wait in ipairs(redis.call('ZRANGE', KEYS[2], passed, last)) do
      local what, claim, own = place(wait, mine, state)
      if what == 'stopped' then
        result = what
        break
      end
      passed = passed + 1
      if what == 'mine' then
        result = what
        break
      end
      if what ~= 'gone' then
        names[#names + 1] = wait
        entries[#entries + 1] = text(now + claim * 1000)
        entries[#entries + 1] = 'v:' .. wait
        state = 'read'
        if mode == '' then
          mode = own
        end
        if what == 'w' or #names == together then
          result = 'stopped'
          break
        end
      end
    end
    if result ~= 'through' then
      break
    end
  end
  if #names > 0 then
    reserve(entries, mode)
  end
  if passed > 0 then
    redis.call('ZREMRANGEBYRANK', KEYS[2], 0, passed - 1)
    if redis.call('EXISTS', KEYS[2]) == 0 then
      redis.call('DEL', KEYS[3])
    elseif result == 'through' then
      result = 'more'
    end
  end
  return result, names
end

-- pass gives on what has become free, whatever becomes of the queue. 1, or 4 when there are more waits than one script looks at: then a
-- cancel for nobody goes on.
local function pass()
  pcall(close)
  if #KEYS == 1 then
    return 1
  end
  local done, result = pcall(hand_on)
  if done and result == 'more' then
    return 4
  end
  return 1
end
