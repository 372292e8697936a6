-- Take tasks that are due, or one that is behind a lock, for a while.
--
-- KEYS    n the last number, d due, l leased, p records, m attempts, k last ids
--         of keys, o behind their keys, i idle receivers, z dead letters, c the
--         last receive of this receiver, w delayed ones of keys, u done ids, s
--         due again after an interruption, b behind locks, g until when
--         somebody waits for a lock, h the last heartbeat, and until when the
--         ends of leases count nothing, v what is paused; see
--         docs/internals/queue-design.md
-- ARGV[1] receiver   ARGV[2] number of this receive
-- ARGV[3] number of the last receive that was answered, or 0
-- ARGV[4] how many, at most 64; 0 for a receiver that stops
-- ARGV[5] lease in ms
-- ARGV[6] with which interruption a task becomes a dead letter
-- ARGV[7] dead letters that are kept   ARGV[8] for so many ms
-- ARGV[9] two digits, each 1 or 0: 1 to show the receiver's client that its
--         subscription works, and to delete what is no longer kept; 1 if it may
--         take a task that was interrupted
-- ARGV[10] whether the receiver waits for more: 0 never, 1 if it gets nothing,
--          2 if it gets fewer than it wants
-- ARGV[11] how many tasks may be in flight together, or 0
-- ARGV[12] how many bytes of records it takes at most, but at least one record
-- ARGV[13] the lock whose first task it takes, or "" for those that are due
-- ARGV[14] the receiver's token, a slash, and what names its client
--
-- {code, us until a task is due or -1, receivers of the message or -1}, and for
-- each delivery id, fence, attempts and record. The attempts are a number, and
-- ~ and a number of interruptions if there are any. Tasks that have died of an
-- interruption follow: id, 0, attempts and key. The code is 1, 4 if there is
-- more to do immediately, 5 if the limit leaves no room for a task of the lock,
-- or 0 for a late copy, which does nothing.

if #ARGV ~= 14 then
  return redis.error_reply('ERR relock: task_receive: bad arguments')
end
local number, heard, want, lease = whole(ARGV[2], 1), whole(ARGV[3], 0), whole(ARGV[4], 0), whole(ARGV[5], 10)
local fatal, letters, age, limit = whole(ARGV[6], 1), whole(ARGV[7], 0), whole(ARGV[8], 0), whole(ARGV[11], 0)
local size, lock = whole(ARGV[12], 1), ARGV[13]
local heartbeat, suspects = string.match(ARGV[9], '^([01])([01])$')
local client, token = string.match(ARGV[1], '^([^:]+):%d+$'), string.match(ARGV[14], '^(%w+)/%S*$')
if not client or not number or not heard or not want or want > 64 or not lease or not limit or not size then
  return redis.error_reply('ERR relock: task_receive: bad arguments')
end
if not fatal or not letters or not age or not heartbeat or not token then
  return redis.error_reply('ERR relock: task_receive: bad arguments')
end
if #lock > 9999 or not string.find(ARGV[10], '^[012]$') then
  return redis.error_reply('ERR relock: task_receive: bad arguments')
end
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
-- rare is above 0 if there may be delayed tasks of keys, suspects, promises or
-- pauses: without, one command is asked instead of four.
local rare = redis.call('EXISTS', KEYS[11], KEYS[13], KEYS[15], KEYS[17])
local pauses, stopped = 0, false -- stopped if the queue is paused
if rare > 0 then
  pauses = redis.call('HLEN', KEYS[17])
end
if pauses > 0 then
  stopped = redis.call('HGET', KEYS[17], '\0')
end

-- earlier reads what the last receive took. It returns its number, the fence
-- before its first one, and the ids.
local function earlier()
  local stored, ids = redis.call('GET', KEYS[10]), {}
  if not stored then
    return 0, 0, ids
  end
  local last, fence, count, at = string.match(stored, '^(%d+) (%d+) (%d+) ()')
  for i = 1, tonumber(count) do
    local size, from = string.match(stored, '^(%d+):()', at)
    ids[i] = string.sub(stored, from, from + size - 1)
    at = from + size
  end
  return tonumber(last), tonumber(fence), ids
end

-- again answers a second copy: the deliveries that still have their leases,
-- with whole ones.
local function again(fence, ids)
  local answer = {1, -1, -1}
  for i, id in ipairs(ids) do
    local attempt, interrupted, named = read_meta(redis.call('HGET', KEYS[5], id))
    local ends = redis.call('ZSCORE', KEYS[3], id)
    if named == text(fence + i) .. '@' .. token and ends and tonumber(ends) > now then
      redis.call('ZADD', KEYS[3], text(math.max(ends, now + lease * 1000)), id)
      answer[#answer + 1] = id
      answer[#answer + 1] = text(fence + i)
      answer[#answer + 1] = attempts_text(attempt, interrupted)
      answer[#answer + 1] = redis.call('HGET', KEYS[4], id)
    end
  end
  return answer
end

-- undo returns what an unanswered receive took, as if it was never received.
-- It returns how many tasks that are.
local function undo(fence, ids)
  local back = 0
  for i, id in ipairs(ids) do
    local attempt, interrupted, named, ticket, key, said = read_meta(redis.call('HGET', KEYS[5], id))
    if named == text(fence + i) .. '@' .. token then
      redis.call('HSET', KEYS[5], id, meta_of(attempt - 1, interrupted, '0', ticket, key, said))
      redis.call('ZADD', due_of(interrupted, KEYS[2], KEYS[13]), due_at(ticket, now), id)
      redis.call('ZREM', KEYS[3], id)
      back = back + 1
    end
  end
  return back
end

-- beat notes a heartbeat. A receiver that waits asks each second. If this one
-- has waited, but neither it nor any other one was heard for half a lease,
-- leases may have ended because nobody could renew them: their ends count
-- nothing for one lease. The receiver of a process that was killed never asks
-- again. beat returns until when they count nothing, or 0.
local function beat()
  local last, lenient = string.match(tostring(redis.call('GET', KEYS[16])), '^(%d+) (%d+)$')
  if not last then
    last, lenient = 0, '0'
  end
  local waited = redis.call('ZSCORE', KEYS[8], ARGV[1])
  if waited and now - math.max(last, waited) >= math.max(lease * 500, stale) then
    lenient = text(now + lease * 1000)
  end
  if heartbeat == '1' then
    last = now
  end
  redis.call('SET', KEYS[16], text(last) .. ' ' .. lenient, 'PX', text(math.max(10 * lease, 60000)))
  return math.min(tonumber(lenient), now + lease * 1000)
end

-- step returns how much the end of a lease counts as an interruption: 0 after
-- such a time, and after the start of the server. A user without INFO cannot
-- see that it has just started.
local function step()
  if beat() > now then
    return 0
  end
  local info, uptime = redis.pcall('INFO', 'server'), nil
  if type(info) == 'string' then
    uptime = string.match(info, 'uptime_in_seconds:(%d+)')
  end
  if uptime and uptime * 1000 < lease then
    return 0
  end
  return 1
end

-- ended returns tasks whose leases have ended: due again, or dead after too
-- many interruptions. It returns how many leases, how many tasks are due now,
-- and what the answer has of the dead ones.
local function ended()
  local ids = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', text(now), 'LIMIT', '0', '32')
  if #ids == 0 then
    return 0, 0, {}
  end
  local back, dead, number, stored, count = 0, {}, nil, redis.call('HMGET', KEYS[5], unpack(ids)), step()
  for i, id in ipairs(ids) do
    local attempt, interrupted, _, ticket, key, said = read_meta(stored[i])
    if attempt then
      interrupted = interrupted + count
      local released = meta_of(attempt - 1, interrupted, '0', ticket, key, '')
      if interrupted < fatal or count == 0 then
        redis.call('HSET', KEYS[5], id, released .. said)
        redis.call('ZADD', due_of(interrupted, KEYS[2], KEYS[13]), due_at(ticket, now), id)
        back = back + 1
      else
        local first = next_of(KEYS[7], id)
        if not number then
          number = draw(KEYS[1], #ids, now)
        end
        local why = 'interrupted ' .. text(interrupted) .. ' times: its worker was gone'
        bury(number, KEYS[4], KEYS[5], KEYS[9], id, released, why, letters, age)
        number = number + 1
        dead[#dead + 1] = id
        dead[#dead + 1] = '0'
        dead[#dead + 1] = attempts_text(attempt - 1, interrupted)
        dead[#dead + 1] = key
        if #key > 0 then
          back = back + follow(KEYS[2], KEYS[6], KEYS[7], key, id, first, now)
        end
      end
    elseif redis.call('HSTRLEN', KEYS[4], id) > 0 then -- others have damaged what is stored of it
      redis.call('ZADD', KEYS[2], text(now), id)
      back = back + 1
    end
  end
  redis.call('ZREM', KEYS[3], unpack(ids))
  return #ids, back, dead
end

-- given_up makes tasks due that are behind locks for which nobody waits any
-- more. It returns how many tasks are due, and whether there may be more.
local function given_up()
  local back, left = 0, 32
  for _, name in ipairs(redis.call('ZRANGEBYSCORE', KEYS[15], '-inf', text(now), 'LIMIT', '0', left)) do
    local read, due = give_back(KEYS[14], behind_lock(name), left, KEYS[2], KEYS[13], KEYS[5], now)
    if read < left then
      redis.call('ZREM', KEYS[15], name)
    end
    back, left = back + due, left - read
    if left == 0 then
      break
    end
  end
  return back, left == 0
end

-- room returns how many tasks a pause and the limit let this receive take.
-- Leases that have ended, and were not returned yet, count. A receive for a
-- lock that found no room leaves a mark, so that others leave it some: it
-- cannot wait.
local function room()
  if stopped then
    return 0
  end
  if limit == 0 then
    return want
  end
  local free, mark = limit - redis.call('ZCARD', KEYS[3]), 0
  if rare > 0 then
    mark = promised(KEYS[15], '')
  end
  if lock == '' and mark > now and mark <= now + 2000000 then
    free = free - 1
  end
  return math.max(0, math.min(want, free))
end

-- first_due returns the ids of tasks that are due. One may have been
-- interrupted: the last one, or the first one if all others are younger.
local function first_due(free)
  local ids = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', text(now), 'LIMIT', '0', free)
  if suspects == '0' or free == 0 or rare == 0 then
    return ids
  end
  local suspect = redis.call('ZRANGEBYSCORE', KEYS[13], '-inf', text(now), 'WITHSCORES', 'LIMIT', '0', '1')
  if suspect[1] and #ids < free then
    ids[#ids + 1] = suspect[1]
  elseif suspect[1] and tonumber(suspect[2]) <= tonumber(redis.call('ZSCORE', KEYS[2], ids[1])) then
    ids[free] = nil
    table.insert(ids, 1, suspect[1])
  end
  return ids
end

-- paused_of returns since when the keys of these records are paused, or false
-- for each that is not.
local function paused_of(records)
  local keys = {}
  for i, record in ipairs(records) do
    local _, key = parts(tostring(record))
    keys[i] = key
  end
  return redis.call('HMGET', KEYS[17], unpack(keys))
end

-- park puts the head of a paused key where nobody looks for it until the key is
-- resumed. Its place is only valid beside a ticket, so one that was never
-- received gets that, too.
local function park(id, record)
  local ticket, key = parts(record)
  local attempt, interrupted, _, _, _, said = read_meta(redis.call('HGET', KEYS[5], id))
  if not attempt then
    attempt = '0'
  end
  redis.call('HSET', KEYS[5], id, meta_of(attempt, interrupted, '0', ticket, key, said))
  redis.call('ZADD', KEYS[14], '0', behind_pause(key) .. ticket .. id)
  redis.call('ZREM', KEYS[2], id)
  redis.call('ZREM', KEYS[13], id)
end

-- park_more parks the heads of paused keys among the next 64 tasks that are
-- due. A receive that wants few looks at few: it would pass over thousands of
-- paused keys one after the other.
local function park_more()
  local due, bytes = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', text(now), 'LIMIT', '0', '64'), 0
  for first = 1, #due, 8 do
    if bytes > size then
      return
    end
    local some = redis.call('HMGET', KEYS[4], unpack(due, first, math.min(first + 7, #due)))
    for i, since in ipairs(paused_of(some)) do
      bytes = bytes + #tostring(some[i])
      if since then
        park(due[first + i - 1], some[i])
      end
    end
  end
end

-- pick returns the ids and the records of tasks that are due, their tickets and
-- keys, and whether there may be more.
local function pick(free)
  local ids, records, places, paused, bytes, full, parked = {}, {}, {}, {}, 0, false, false
  local more = rare > 0
  if more then
    more = join(KEYS[11], KEYS[2], KEYS[4], KEYS[6], KEYS[7], now)
  end
  local due = first_due(free)
  for first = 1, #due, 8 do -- what is read beyond the size is bounded
    if full or bytes > size then
      more = true
      break
    end
    local some = redis.call('HMGET', KEYS[4], unpack(due, first, math.min(first + 7, #due)))
    if pauses > 0 then
      paused = paused_of(some)
    end
    for i, record in ipairs(some) do
      local id = due[first + i - 1]
      if not record then
        redis.call('ZREM', KEYS[2], id) -- deleted by others
        redis.call('ZREM', KEYS[13], id)
        redis.call('HDEL', KEYS[5], id)
        more = true
      elseif paused[i] then
        park(id, record)
        bytes = bytes + #record
        more, parked = true, true
      elseif full or (#ids > 0 and bytes + #record > size) then
        more, full = true, true
      else
        local ticket, key = parts(record)
        ids[#ids + 1] = id
        records[#ids] = record
        places[#ids] = ' ' .. ticket .. ' ' .. key
        bytes = bytes + #record
      end
    end
  end
  if parked and #ids == 0 and bytes <= size then
    park_more()
  end
  return ids, records, places, more
end

-- pick_behind does the same for the first task of the lock, with the code of
-- the answer. It passes over up to 64 that were removed, or whose key is
-- paused. If the queue is paused, the tasks of the lock are due: nobody need
-- wait for it.
local function pick_behind(free)
  local place, bytes = behind_lock(lock), 0
  if stopped then
    promise(KEYS[15], lock, 0, now)
    return {}, {}, {}, 1
  end
  if free == 0 then
    promise(KEYS[15], '', 2000, now)
    return {}, {}, {}, 5
  end
  if limit > 0 then
    redis.call('ZREM', KEYS[15], '') -- it has its room
  end
  for _ = 1, 64 do
    local entry = first_behind(KEYS[14], place, 1)[1]
    if not entry then
      redis.call('ZREM', KEYS[15], lock)
      return {}, {}, {}, 1
    end
    local id, _, interrupted = read_behind(KEYS[5], place, entry)
    local record
    if interrupted then
      record = redis.call('HGET', KEYS[4], id)
    end
    if record then
      if pauses == 0 or not paused_of({record})[1] then
        local ticket, key = parts(record)
        return {id}, {record}, {' ' .. ticket .. ' ' .. key}, 1
      end
      park(id, record)
      bytes = bytes + #record
    end
    redis.call('ZREM', KEYS[14], entry)
    if bytes > maximum then
      break
    end
  end
  return {}, {}, {}, 4
end

-- take leases the tasks. It adds them to the answer, and returns what is
-- stored of this receive.
local function take(answer, ids, records, places)
  local suspect
  if #ids == 0 then
    return ARGV[2] .. ' 0 0 '
  end
  local stored = redis.call('HMGET', KEYS[5], unpack(ids))
  local first = draw(KEYS[1], #ids, now)
  local leases, meta, took, ends = {}, {}, {}, text(now + lease * 1000)
  local at = #answer
  for i, id in ipairs(ids) do
    local record, attempt, fence = records[i], '1', text(first + i - 1)
    local earlier, interrupted, _, _, _, said = read_meta(stored[i])
    if earlier then
      attempt = attempts_text(earlier + 1, interrupted)
    end
    if interrupted > 0 then
      suspect = id
    end
    leases[2 * i - 1], leases[2 * i] = ends, id
    meta[2 * i - 1], meta[2 * i] = id, attempt .. ' ' .. fence .. '@' .. ARGV[14] .. places[i] .. said
    took[i] = #id .. ':' .. id
    answer[at + 1], answer[at + 2], answer[at + 3], answer[at + 4] = id, fence, attempt, record
    at = at + 4
  end
  -- In this order: after an error they are still due.
  redis.call('ZADD', KEYS[3], unpack(leases))
  redis.call('HSET', KEYS[5], unpack(meta))
  redis.call('ZREM', KEYS[2], unpack(ids))
  if suspect then
    redis.call('ZREM', KEYS[13], suspect)
  end
  if lock ~= '' then
    redis.call('ZREM', KEYS[14], behind_lock(lock) .. string.sub(places[1], 2, 17) .. ids[1])
  end
  return ARGV[2] .. ' ' .. text(first - 1) .. ' ' .. #ids .. ' ' .. table.concat(took)
end

-- next_time returns how long it takes until something is due, or -1. While the
-- limit is reached, that is the end of a lease.
local function next_time(reached)
  local at, sets = math.huge, {KEYS[2], KEYS[3], KEYS[11], KEYS[15]}
  if reached then
    sets = {KEYS[3]}
  elseif suspects == '1' then
    sets[5] = KEYS[13]
  end
  for _, set in ipairs(sets) do
    local first = redis.call('ZRANGE', set, '0', '0', 'WITHSCORES')[2]
    if first then
      at = math.min(at, first)
    end
  end
  if at == math.huge then
    return -1
  end
  return math.max(0, at - now)
end

local last, fence, before = earlier()
if number < last then
  return {0, -1, -1}
end
if number == last then
  return again(fence, before)
end
may(KEYS[3], KEYS[5]) -- first of all writes: what drains a full memory is not refused
if heartbeat == '1' then
  beat()
end
local back, more = 0, false
if last > heard then
  back = undo(fence, before)
end
local leases, due, dead = ended()
back = back + due
rare = rare + back -- suspects, it may be
local free = room()
local code, ids, records, places, some = 1, {}, {}, {}, false
if lock ~= '' then
  ids, records, places, code = pick_behind(free)
elseif want > 0 then
  if rare > 0 then
    due, more = given_up()
    back = back + due
  end
  ids, records, places, some = pick(free)
  back = math.max(0, back - #ids) -- these need no other receiver
end
if more or some or leases == 32 then
  code = 4
end
local answer = {code, -1, -1}
redis.call('SET', KEYS[10], take(answer, ids, records, places), 'PX', text(math.max(10 * lease, 60000)))
for _, value in ipairs(dead) do
  answer[#answer + 1] = value
end
if want > #ids and lock == '' then
  answer[2] = next_time(#ids == free)
end
if code == 1 and (ARGV[10] == '2' and want > #ids or ARGV[10] == '1' and #ids == 0) then
  redis.call('ZADD', KEYS[8], text(now), ARGV[1])
  forget(KEYS[8], now)
else
  redis.call('ZREM', KEYS[8], ARGV[1])
end
if want == 0 then
  back = due_soon(KEYS[2], KEYS[11], now)
end
if stopped then
  back = 0
end
wake(KEYS[8], back, now)
if heartbeat == '1' then
  trim(KEYS[4], KEYS[5], KEYS[9], KEYS[12], letters, age, now)
  local receivers = message(string.match(KEYS[1], '^([^{]*)queue:{'), string.sub(KEYS[1], 1, -3), client, '')
  if type(receivers) == 'number' then
    answer[3] = receivers
  end
end
return answer
