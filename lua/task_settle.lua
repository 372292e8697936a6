-- End deliveries that have their leases.
--
-- KEYS    n the last number, d due, l leased, p records, m attempts, k last ids
--         of keys, o behind their keys, i idle receivers, z dead letters, u
--         done ids, w delayed ones of keys, s due again after an
--         interruption, b behind locks, g until when somebody waits for a
--         lock; see docs/internals/queue-design.md
-- ARGV[1] ms for which a done id is refused, or 0
-- ARGV[2] dead letters that are kept   ARGV[3] for so many ms
-- ARGV[4] 1 if the queue limits how many tasks are in flight, or 0
-- ARGV[5], and so on: for each delivery its id, its fence with @ and the token,
--         what becomes of it, and an argument: a, done, ""; n, failed, ms until
--         it is due, or these, a space and the reason; r, as if it was never
--         received, ms or 0; b, as if it was never received, and behind a lock:
--         ms for which somebody waits for that, a space, the lock; d, dead, the
--         reason
--
-- For each delivery 1: done. 0: it has no lease. For a single one the number
-- alone.

if #ARGV < 8 or #ARGV % 4 ~= 0 or (ARGV[4] ~= '0' and ARGV[4] ~= '1') then
  return redis.error_reply('ERR relock: task_settle: bad arguments')
end
local keep, letters, age = whole(ARGV[1], 0), whole(ARGV[2], 0), whole(ARGV[3], 0)
if not keep or not letters or not age then
  return redis.error_reply('ERR relock: task_settle: bad arguments')
end

-- failed_of reads the argument of a failed attempt: the pause, and the reason
-- as it is stored.
local function failed_of(argument)
  local pause, why = string.match(argument, '^(%d+) (.+)$')
  if pause then
    return pause, '\0' .. why
  end
  return argument, ''
end

local ids = {}
for i = 5, #ARGV, 4 do
  local verb = ARGV[i + 2]
  if #ARGV[i] == 0 or not string.find(ARGV[i + 1], '^[1-9]%d*@%w+$') or not string.find(verb, '^[abndr]$') then
    return redis.error_reply('ERR relock: task_settle: bad arguments')
  end
  local pause = '0'
  if verb == 'n' then
    pause = failed_of(ARGV[i + 3])
  elseif verb == 'r' then
    pause = ARGV[i + 3]
  end
  if not whole(pause, 0) then
    return redis.error_reply('ERR relock: task_settle: bad arguments')
  end
  if verb == 'b' then
    local wait, lock = string.match(ARGV[i + 3], '^(%d+) (.+)$')
    if not wait or not whole(wait, 10) or #lock > 9999 then
      return redis.error_reply('ERR relock: task_settle: bad arguments')
    end
  end
  ids[#ids + 1] = ARGV[i]
end

local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local stored, ends = redis.call('HMGET', KEYS[5], unpack(ids)), redis.call('ZMSCORE', KEYS[3], unpack(ids))
local answers, held, ended, keys, heads, moves = {}, {}, {}, {}, {}, false
for i, id in ipairs(ids) do
  local _, _, fence, _, key = read_meta(stored[i])
  answers[i] = 0
  -- Of two copies in one script, one counts.
  if fence == ARGV[4 * i + 2] and ends[i] and tonumber(ends[i]) > now and not held[id] then
    answers[i] = 1
    held[id] = true
    keys[i] = key
    if #key > 0 then
      heads[#heads + 1] = id
    end
    if ARGV[4 * i + 3] ~= 'a' then
      moves = true
    end
    ended[#ended + 1] = id
  end
end
local nexts = {} -- read before the first write: an error leaves nothing half done
if #heads > 0 then
  for i, first in ipairs(redis.call('HMGET', KEYS[7], unpack(heads))) do
    nexts[heads[i]] = first
  end
end
-- Tasks that only the limit keeps waiting: each lease that ends leaves room for
-- one. While nobody is idle, nobody need know.
local waiting = 0
if ARGV[4] == '1' then
  waiting = redis.call('EXISTS', KEYS[8])
end
if waiting > 0 then
  waiting = due_soon(KEYS[2], KEYS[11], now)
end
if moves then
  may(KEYS[3], KEYS[5])
elseif #heads > 0 then
  redis.call('HDEL', KEYS[7], '') -- fails before the first write, if at all
elseif #ended == 0 then
  local write = absent(0)
  if write ~= 0 then
    return write
  end
end

-- retry makes a task due after the pause, behind what is due by then. It
-- returns how many tasks are due soon.
local function retry(i, id, attempt, interrupted, ticket, key, said, pause)
  local at = text(now + pause * 1000 + i - 1)
  redis.call('HSET', KEYS[5], id, meta_of(attempt, interrupted, '0', ticket, key, said))
  redis.call('ZADD', due_of(interrupted, KEYS[2], KEYS[12]), at, id)
  if tonumber(at) <= now + period then
    return 1
  end
  return 0
end

-- wait_for puts a task behind a lock, for which somebody waits. Without that
-- promise nobody would look there, so it comes first.
local function wait_for(id, attempt, interrupted, ticket, key, said, argument)
  local wait, lock = string.match(argument, '^(%d+) (.+)$')
  promise(KEYS[14], lock, tonumber(wait), now)
  redis.call('HSET', KEYS[5], id, meta_of(attempt, interrupted, '0/' .. escaped(lock), ticket, key, said))
  redis.call('ZADD', KEYS[13], '0', behind_lock(lock) .. ticket .. id)
end

local until_then = ''
if keep > 0 then
  until_then = text(now + keep * 1000)
end
local done, refused, passed, due, freed, soon, number = {}, {}, {}, {}, {}, 0, nil

-- leave takes a task from its key: the next one is due, or the key is free.
local function leave(id, key)
  local first = nexts[id]
  if first then
    passed[#passed + 1] = id
    due[#due + 1] = due_at(string.sub(first, 1, 16), now)
    due[#due + 1] = string.sub(first, 17)
  else
    freed[#freed + 1] = key
  end
end

for i, id in ipairs(ids) do
  local verb, argument, key = ARGV[4 * i + 3], ARGV[4 * i + 4], keys[i]
  if answers[i] == 1 then
    if verb == 'a' then
      done[#done + 1] = id
      refused[#refused + 1] = until_then
      refused[#refused + 1] = id
    else
      local attempt, interrupted, _, ticket, _, said = read_meta(stored[i])
      if verb == 'n' then
        local pause, why = failed_of(argument)
        soon = soon + retry(i, id, attempt, interrupted, ticket, key, why, pause)
      elseif verb == 'r' then
        soon = soon + retry(i, id, attempt - 1, interrupted, ticket, key, said, argument)
      elseif verb == 'b' then
        wait_for(id, attempt - 1, interrupted, ticket, key, said, argument)
      else
        if not number then
          number = draw(KEYS[1], #ids, now)
        end
        local released = meta_of(attempt, interrupted, '0', ticket, key, '')
        bury(number, KEYS[4], KEYS[5], KEYS[9], id, released, argument, letters, age)
        number = number + 1
      end
    end
    if #key > 0 and (verb == 'a' or verb == 'd') then
      leave(id, key)
    end
  end
end
if #passed > 0 then
  redis.call('ZADD', KEYS[2], unpack(due))
  redis.call('HDEL', KEYS[7], unpack(passed))
end
if #freed > 0 then
  redis.call('HDEL', KEYS[6], unpack(freed))
end
if #done > 0 then
  redis.call('HDEL', KEYS[4], unpack(done)) -- never refused for want of memory
  redis.call('HDEL', KEYS[5], unpack(done))
end
if #ended > 0 then
  redis.call('ZREM', KEYS[3], unpack(ended)) -- last: after an error the leases end
end
if keep > 0 and #done > 0 then
  local old = redis.call('ZRANGEBYSCORE', KEYS[10], '-inf', text(now), 'LIMIT', 0, 2 * #done)
  if #old > 0 then
    redis.call('ZREM', KEYS[10], unpack(old))
  end
  redis.call('ZADD', KEYS[10], unpack(refused))
end
wake(KEYS[8], math.min(#ended, soon + #passed + waiting), now)
if #answers == 1 then
  return answers[1]
end
return answers
