-- text writes a whole number. It keeps the last one, as a script writes the
-- time several times. Lua writes a number that is an argument of a command as
-- slowly, so constants there are texts.
local number_of_text, last_text
local function text(n)
  if n ~= number_of_text then
    number_of_text, last_text = n, string.format('%.0f', n)
  end
  return last_text
end

-- due_at returns when a task without a pause is due: at its ticket, or now if
-- the clock was set back since that was drawn.
local function due_at(ticket, now)
  if tonumber(ticket) > now then
    return text(now)
  end
  return ticket
end

-- behind_pause returns what the place of the head of a paused key begins with,
-- among those behind locks: k, 3 digits, a key of that length. A lock begins
-- with a digit there.
local function behind_pause(key)
  return string.format('k%03d', #key) .. key
end

-- The tasks of a key are a list. The hash k has the last id of each key, the
-- hash o the ticket and the id of the task behind another one. A record has the
-- id before it, which counts while its task is behind its key: 3 digits and
-- that id. A delayed task is apart until it joins its key.
local apart = '---'

-- length_of reads 3 digits, or returns 0.
local function length_of(digits)
  if string.find(digits, '^%d%d%d$') then
    return tonumber(digits)
  end
  return 0
end

-- parts returns the ticket and the key of a record, where its key begins, and
-- the id before it, nil while it is apart. A damaged record has no key, and is
-- due. Its receiver makes it a dead letter.
local function parts(record)
  local ticket, mark, size = string.match(record, '^........(%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d)(...)(...)')
  if not ticket then
    return '0000000000000000', '', 28, ''
  end
  local from, before = 28, ''
  if mark == apart then
    before = nil
  elseif mark ~= '000' then
    from = 28 + length_of(mark)
    before = string.sub(record, 28, from - 1)
    size = string.sub(record, from, from + 2)
  end
  if size == '000' then
    return ticket, '', from, before
  end
  local length = length_of(size)
  if length == 0 then
    return '0000000000000000', '', 28, ''
  end
  return ticket, string.sub(record, from + 3, from + 2 + length), from, before
end

-- placed returns a record with another ticket and another id before it, or
-- none.
local function placed(record, ticket, from, before)
  if not before then
    before = ''
  end
  return string.sub(record, 1, 8) .. ticket .. string.format('%03d', #before) .. before .. string.sub(record, from)
end

-- next_of returns the task behind another one, as follow takes it, or false.
-- Scripts that must read before they write call it.
local function next_of(behind, id)
  return redis.call('HGET', behind, id)
end

-- follow makes the task behind the head of a key due, or frees the key. It
-- returns how many tasks are due now: 1 or 0.
local function follow(due, lasts, behind, key, head, first, now)
  if not first then
    redis.call('HDEL', lasts, key)
    return 0
  end
  redis.call('ZADD', due, due_at(string.sub(first, 1, 16), now), string.sub(first, 17))
  redis.call('HDEL', behind, head)
  return 1
end
