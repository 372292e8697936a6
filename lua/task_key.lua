-- text writes a whole number.
local function text(n)
  return string.format('%.0f', n)
end

-- due_at returns when a task without a pause is due: at its ticket, or now if
-- the clock was set back since that was drawn.
local function due_at(ticket, now)
  return text(math.min(ticket, now))
end

-- parts returns the ticket and the key of a record. A damaged record has no
-- key, and is due. Its receiver makes it a dead letter.
local function parts(record)
  local ticket, size = string.sub(record, 9, 24), tonumber(string.sub(record, 25, 27))
  if not size or not string.find(ticket, '^%d+$') then
    return '0000000000000000', ''
  end
  return ticket, string.sub(record, 28, 27 + size)
end

-- next_of returns the first task behind a key, as follow takes it, or nil.
-- Scripts that must read before they write call it.
local function next_of(behind, key)
  return redis.call('ZRANGEBYLEX', behind, '[' .. key .. '\0', '(' .. key .. '\1', 'LIMIT', 0, 1)[1]
end

-- follow makes the next task of a key due, or frees the key. It returns how
-- many tasks are due now: 1 or 0.
local function follow(due, heads, behind, key, first, now)
  if not first then
    redis.call('HDEL', heads, key)
    return 0
  end
  local id = string.sub(first, #key + 19)
  redis.call('HSET', heads, key, id)
  redis.call('ZREM', behind, first)
  redis.call('ZADD', due, due_at(string.sub(first, #key + 2, #key + 17), now), id)
  return 1
end
