-- End holds and reservations of a read/write lock or a semaphore, after their
-- holders have acknowledged it, or look what those are. A hold is marked: '!'
-- stands in front of its id, also in the entry of its number. So nothing
-- extends it, and its holder's client releases it. What is kept for a minimum
-- hold stays taken. See docs/internals/force-design.md.
--
-- KEYS: see rw.lua; KEYS[5] the notice: a hash with the reason for each hold
--   that is or was to end by force
-- ARGV[1] 'look', 'end', or 'free' to wait for no acknowledgement
-- ARGV[2] reason; of a look "", or the cursor of the one before
-- ARGV[3], ... what to end, as looks have named it; 256 names at most
--
-- look, {1, cursor, name, ...}: ids of holds and names of waiters, by their
--   ends. The cursor is "" if there are no more
-- look, 0: the lock is free
-- end, {left, ms, handed, gone}: how many of the names are still there; after
--   how many ms the last of them ends; 1, or 4 if the lock was handed off and
--   the scan limit was reached before a live waiter; of how many waiters the
--   reservation has gone before
-- -1: the key is of another kind

local page = 256

if (ARGV[1] ~= 'look' and ARGV[1] ~= 'end' and ARGV[1] ~= 'free') or not ARGV[2] or #ARGV > page + 2 then
  return redis.error_reply('ERR relock: end: bad arguments')
end
if ARGV[1] == 'look' and #ARGV[2] > 0 and not string.find(ARGV[2], '^%(%d+$') then
  return redis.error_reply('ERR relock: end: bad cursor')
end

local state, detail = rw_state()
if state == 'error' then
  return detail
end
if state == 'alien' then
  return absent(-1)
end

-- add_name adds the name of an entry, unless it is kept.
local function add_name(names, entry)
  if string.find(entry, '^[rwv]:') then
    names[#names + 1] = (string.gsub(string.sub(entry, 3), '^!', ''))
  end
end

-- names_from returns the answer to a look, with the names behind a cursor.
-- Those that end together are on one page.
local function names_from(cursor)
  local entries = redis.call('ZRANGEBYSCORE', KEYS[1], cursor, never, 'WITHSCORES', 'LIMIT', 0, page)
  local names, last = {1, ''}, nil
  if #entries == 2 * page then
    last = entries[#entries]
    names[2] = '(' .. last
  end
  for i = 1, #entries, 2 do
    if entries[i + 1] ~= last then
      add_name(names, entries[i])
    end
  end
  if last then
    for _, entry in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], last, last)) do
      add_name(names, entry)
    end
  end
  return names
end

local changed, left, ends, told = false, 0, now, {}

-- mark marks a hold. ZREM is never refused when memory is full, and lets the
-- next writes pass.
local function mark(hold, entry)
  redis.call('ZREM', KEYS[1], '')
  for _, old in ipairs({entry .. ':' .. hold, '#' .. hold}) do
    local score = redis.call('ZSCORE', KEYS[1], old)
    if score then
      redis.call('ZADD', KEYS[1], score, string.sub(old, 1, -1 - #hold) .. '!' .. hold)
      redis.call('ZREM', KEYS[1], old)
    end
  end
end

-- end_hold marks a hold, or ends it.
local function end_hold(hold)
  local stored = hold
  local entry, at = held(hold)
  if not entry then
    stored = '!' .. hold
    entry, at = held(stored)
    if not entry then
      return
    end
  end
  if ARGV[1] == 'free' then
    leave(stored, redis.call('ZSCORE', KEYS[1], '#' .. stored), now, true)
    told[#told + 1] = hold
    changed = true
    return
  end
  left, ends = left + 1, math.max(ends, at)
  if stored == hold then
    mark(hold, entry)
    told[#told + 1] = hold
    changed = true
  end
end

-- notify leaves the reason, and a message for the clients of the first holds.
-- If memory is full, the holders do not learn the reason.
local function notify(rest)
  local fields = {}
  for _, hold in ipairs(told) do
    fields[#fields + 1] = hold
    fields[#fields + 1] = ARGV[2]
  end
  redis.pcall('HSET', KEYS[5], unpack(fields))
  redis.pcall('PEXPIRE', KEYS[5], text(math.max(redis.call('PTTL', KEYS[5]), rest, 1000)))
  for i = 1, math.min(#told, batch) do
    message(prefix, KEYS[1], string.match(told[i], '^[^:]*'), 'forced:' .. told[i] .. ' ' .. KEYS[1])
  end
end

if ARGV[1] == 'look' then
  if state == 'free' then
    return absent(0)
  end
  local cursor = ARGV[2]
  if #cursor == 0 then
    cursor = later
  end
  return absent(names_from(cursor))
end

local rest, gone = redis.call('PTTL', KEYS[1]), 0
for i = 3, #ARGV do
  if not string.find(ARGV[i], waiter_name) then
    end_hold(ARGV[i])
  elseif redis.call('ZREM', KEYS[1], 'v:' .. ARGV[i]) == 1 then
    changed = true
  else
    gone = gone + 1
  end
end
if #told > 0 then
  notify(rest)
end
if not changed and state ~= 'free' then
  return absent({left, math.ceil((ends - now) / 1000), 1, gone})
end
local refusal = absent(false)
if refusal then
  return refusal
end
return {left, math.ceil((ends - now) / 1000), pass_on(), gone}
