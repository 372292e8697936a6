-- Take tasks that are due, for a while.
--
-- KEYS    n the last number, d due, l leased, p records, m attempts, k last ids
--         of keys, o behind their keys, i idle receivers, z dead letters, c the
--         last receive of this receiver; see docs/queue-design.md
-- ARGV[1] receiver   ARGV[2] number of this receive
-- ARGV[3] number of the last receive that was answered, or 0
-- ARGV[4] how many, at most 64; 0 for a receiver that stops
-- ARGV[5] lease in ms   ARGV[6] attempts that a task has
-- ARGV[7] dead letters that are kept   ARGV[8] for so many ms
-- ARGV[9] 1 to show the receiver's client that its subscription works, or 0
-- ARGV[10] whether the receiver waits for more: 0 never, 1 if it gets nothing,
--          2 if it gets fewer than it wants
--
-- {code, us until a task is due or -1, receivers of the message or -1}, and for
-- each delivery id, fence, attempt and record. The code is 1, 4 if there is
-- more to do immediately, or 0 for a late copy, which does nothing.

if #ARGV ~= 10 then
  return redis.error_reply('ERR relock: task_receive: bad arguments')
end
local number, heard, want, lease = whole(ARGV[2], 1), whole(ARGV[3], 0), whole(ARGV[4], 0), whole(ARGV[5], 10)
local most, letters, age = whole(ARGV[6], 1), whole(ARGV[7], 0), whole(ARGV[8], 0)
local client = string.match(ARGV[1], '^([^:]+):%d+$')
if not client or not number or not heard or not want or want > 64 or not lease then
  return redis.error_reply('ERR relock: task_receive: bad arguments')
end
if not most or not letters or not age or (ARGV[9] ~= '0' and ARGV[9] ~= '1') or not string.find(ARGV[10], '^[012]$') then
  return redis.error_reply('ERR relock: task_receive: bad arguments')
end
local maximum = 4194304
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]

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
    local attempt, named = string.match(tostring(redis.call('HGET', KEYS[5], id)), '^(%d+) (%d+) ')
    local ends = redis.call('ZSCORE', KEYS[3], id)
    if named == text(fence + i) and ends and tonumber(ends) > now then
      redis.call('ZADD', KEYS[3], text(math.max(ends, now + lease * 1000)), id)
      answer[#answer + 1] = id
      answer[#answer + 1] = named
      answer[#answer + 1] = attempt
      answer[#answer + 1] = redis.call('HGET', KEYS[4], id)
    end
  end
  return answer
end

-- undo returns what an unanswered receive took, as if it was never received.
-- It returns how many tasks that are.
local function undo(fence, ids)
  local back = 0
  may(KEYS[3], KEYS[5])
  for i, id in ipairs(ids) do
    local stored = tostring(redis.call('HGET', KEYS[5], id))
    local attempt, named, ticket, key = string.match(stored, '^(%d+) (%d+) (%d+) (.*)$')
    if named == text(fence + i) then
      redis.call('HSET', KEYS[5], id, text(attempt - 1) .. ' 0 ' .. ticket .. ' ' .. key)
      redis.call('ZADD', KEYS[2], due_at(ticket, now), id)
      redis.call('ZREM', KEYS[3], id)
      back = back + 1
    end
  end
  return back
end

-- ended returns tasks whose leases have ended: due again, or dead after the
-- last attempt. It returns how many leases, and how many tasks are due now.
local function ended()
  local ids = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', text(now), 'LIMIT', 0, 32)
  if #ids == 0 then
    return 0, 0
  end
  local back, number, stored = 0, nil, redis.call('HMGET', KEYS[5], unpack(ids))
  may(KEYS[3], KEYS[5])
  for i, id in ipairs(ids) do
    local attempt, ticket, key = string.match(tostring(stored[i]), '^(%d+) %d+ (%d+) (.*)$')
    if attempt then
      local released = attempt .. ' 0 ' .. ticket .. ' ' .. key
      if tonumber(attempt) < most then
        redis.call('HSET', KEYS[5], id, released)
        redis.call('ZADD', KEYS[2], due_at(ticket, now), id)
        back = back + 1
      else
        local first = next_of(KEYS[7], id)
        if not number then
          number = draw(KEYS[1], #ids)
        end
        bury(number, KEYS[4], KEYS[5], KEYS[9], id, released, 'the lease of the last attempt has ended', letters, age)
        number = number + 1
        if #key > 0 then
          back = back + follow(KEYS[2], KEYS[6], KEYS[7], key, id, first, now)
        end
      end
    end
  end
  redis.call('ZREM', KEYS[3], unpack(ids))
  return #ids, back
end

-- join puts a delayed task that is due into its key. It returns its record if
-- it may run, which it may not behind another task.
local tried = false
local function join(id, record, ticket, key, from)
  local before = redis.call('HGET', KEYS[6], key)
  if before and not tried then -- fails before the first write, if at all
    tried = true
    redis.call('ZADD', KEYS[2], 'XX', 0, '') -- for want of memory, too
    redis.call('ZREM', KEYS[2], '')
  end
  record = placed(record, ticket, from, before)
  redis.call('HSET', KEYS[6], key, id)
  redis.call('HSET', KEYS[4], id, record)
  if not before then
    return record
  end
  redis.call('HSET', KEYS[7], before, ticket .. id)
  redis.call('ZREM', KEYS[2], id)
  return nil
end

-- pick returns the ids and the records of tasks that are due and may run, their
-- tickets and keys, and whether there may be more.
local function pick()
  local ids, records, places, bytes, more, full = {}, {}, {}, 0, false, false
  if want == 0 then
    return ids, records, places, more
  end
  local due = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', text(now), 'LIMIT', 0, want)
  for first = 1, #due, 8 do -- what is read beyond the maximum is bounded
    if full then
      return ids, records, places, more
    end
    for i, record in ipairs(redis.call('HMGET', KEYS[4], unpack(due, first, math.min(first + 7, #due)))) do
      local id = due[first + i - 1]
      if not record then
        redis.call('ZREM', KEYS[2], id) -- deleted by others
        redis.call('HDEL', KEYS[5], id)
        more = true
      elseif full or (#ids > 0 and bytes + #record > maximum) then
        more, full = true, true
      else
        local ticket, key, from, before = parts(record)
        if not before and #key > 0 then
          record = join(id, record, ticket, key, from)
        end
        if record then
          ids[#ids + 1] = id
          records[#ids] = record
          places[#ids] = ' ' .. ticket .. ' ' .. key
          bytes = bytes + #record
        else
          more = true
        end
      end
    end
  end
  return ids, records, places, more
end

-- take leases the tasks. It adds them to the answer, and returns what is
-- stored of this receive.
local function take(answer, ids, records, places)
  if #ids == 0 then
    return ARGV[2] .. ' 0 0 '
  end
  local stored = redis.call('HMGET', KEYS[5], unpack(ids))
  local first = draw(KEYS[1], #ids)
  local leases, meta, took, ends = {}, {}, {}, text(now + lease * 1000)
  local at = #answer
  for i, id in ipairs(ids) do
    local record, attempt, fence = records[i], '1', text(first + i - 1)
    if stored[i] then
      attempt = text(string.match(stored[i], '^%d+') + 1)
    end
    leases[2 * i - 1], leases[2 * i] = ends, id
    meta[2 * i - 1], meta[2 * i] = id, attempt .. ' ' .. fence .. places[i]
    took[i] = #id .. ':' .. id
    answer[at + 1], answer[at + 2], answer[at + 3], answer[at + 4] = id, fence, attempt, record
    at = at + 4
  end
  -- In this order: after an error they are still due.
  redis.call('ZADD', KEYS[3], unpack(leases))
  redis.call('HSET', KEYS[5], unpack(meta))
  redis.call('ZREM', KEYS[2], unpack(ids))
  return ARGV[2] .. ' ' .. text(first - 1) .. ' ' .. #ids .. ' ' .. table.concat(took)
end

-- first_of returns the earliest score of a set, or nil.
local function first_of(key)
  return redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]
end

-- next_time returns how long it takes until something is due, or -1.
local function next_time()
  local due, ends = first_of(KEYS[2]), first_of(KEYS[3])
  if not due and not ends then
    return -1
  end
  local at = math.huge
  if due then
    at = tonumber(due)
  end
  if ends then
    at = math.min(at, ends)
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
local back = 0
if last > heard then
  back = undo(fence, before)
end
local leases, due = ended()
local ids, records, places, more = pick()
if leases == 32 then
  more = true
end
local answer = {1, -1, -1}
redis.call('SET', KEYS[10], take(answer, ids, records, places), 'PX', text(math.max(10 * lease, 60000)))
if more then
  answer[1] = 4
end
if want > #ids then
  answer[2] = next_time()
end
if want > #ids and not more and (ARGV[10] == '2' or (ARGV[10] == '1' and #ids == 0)) then
  redis.call('ZADD', KEYS[8], text(now), ARGV[1])
else
  redis.call('ZREM', KEYS[8], ARGV[1])
end
if want == 0 then
  wake(KEYS[8], redis.call('ZCOUNT', KEYS[2], '-inf', text(now + period)), now)
elseif back + due > #ids then
  wake(KEYS[8], back + due - #ids, now)
end
if ARGV[9] == '1' then
  local receivers = message(string.match(KEYS[1], '^([^{]*)queue:{'), string.sub(KEYS[1], 1, -3), client, '')
  if type(receivers) == 'number' then
    answer[3] = receivers
  end
end
return answer
