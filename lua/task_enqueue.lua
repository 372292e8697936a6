-- Put tasks into a queue.
--
-- KEYS    n the last number, d due, p records, k last ids of keys, o behind
--         their keys, i idle receivers, u done ids, w delayed ones of keys;
--         see docs/internals/queue-design.md
-- ARGV[1] 8 bytes that are drawn for this call
-- ARGV[2] 1 if ids that are done are refused for a while, 0 if not
-- ARGV[3], and so on: for each task its id, its delay in ms, and its body:
--         000, 3 digits, a key of that length, and what no script reads
--
-- For each task 1: queued, also by an earlier copy. 0: its id is in use.

if #ARGV < 5 or #ARGV % 3 ~= 2 or #ARGV[1] ~= 8 or (ARGV[2] ~= '0' and ARGV[2] ~= '1') then
  return redis.error_reply('ERR relock: task_enqueue: bad arguments')
end
local keys, ordered = {}, {}
for i = 3, #ARGV, 3 do
  local size = tonumber(string.match(ARGV[i + 2], '^000(%d%d%d)'))
  if #ARGV[i] == 0 or not whole(ARGV[i + 1], 0) or not size or #ARGV[i + 2] < 6 + size then
    return redis.error_reply('ERR relock: task_enqueue: bad arguments')
  end
  local key = string.sub(ARGV[i + 2], 7, 6 + size)
  if string.find(key, '%z') then
    return redis.error_reply('ERR relock: task_enqueue: bad arguments')
  end
  keys[i] = key
  if size > 0 then
    ordered[#ordered + 1] = key
  end
end

-- is_done reports whether an id was done a short while ago.
local function is_done(id, now)
  if ARGV[2] == '0' then
    return false
  end
  local refused = redis.call('ZSCORE', KEYS[7], id)
  if refused and tonumber(refused) > now then
    return true
  end
  return false
end

-- Only keys need numbers that never go back. Others do not pay for them.
local ticket, now
local lasts = {} -- the last id of each key
if #ordered == 0 then
  local t = redis.call('TIME')
  now = t[1] * 1000000 + t[2]
  ticket = now
else
  ticket, now = draw(KEYS[1], (#ARGV - 2) / 3)
  local stored = redis.call('HMGET', KEYS[4], unpack(ordered))
  for i, key in ipairs(ordered) do
    lasts[key] = stored[i]
  end
end
local answers, queued, added, later, links, ends, soon = {}, {}, {}, {}, {}, {}, 0
if #ARGV > 5 then
  redis.call('HGET', KEYS[3], '') -- fails before the first write, if at all
end
for i = 3, #ARGV, 3 do
  local id, delay, body, key, answer = ARGV[i], tonumber(ARGV[i + 1]), ARGV[i + 2], keys[i], 0
  local at, before = ticket, false
  if delay > 0 then
    at = now + delay * 1000
  end
  ticket = ticket + 1
  local score = string.format('%016.0f', at)
  local due = score
  if delay == 0 and at > now + period then -- the clock was set back
    at = now + #answers
    due = text(at)
  end
  if #key > 0 then
    if delay > 0 then
      body = apart .. string.sub(body, 4)
    else
      before = lasts[key]
    end
  end
  if before then
    body = string.format('%03d', #before) .. before .. string.sub(body, 4)
  end
  if not is_done(id, now) then
    if redis.call('HSETNX', KEYS[3], id, ARGV[1] .. score .. body) == 1 then
      answer = 1
      queued[#queued + 1] = id
      if #key > 0 and delay == 0 then
        lasts[key] = id
        ends[#ends + 1] = key
        ends[#ends + 1] = id
      end
      if before then
        links[#links + 1] = before
        links[#links + 1] = score .. id
      else
        local set = added
        if #key > 0 and delay > 0 then
          set = later
        end
        set[#set + 1] = due
        set[#set + 1] = id
        if at <= now + period then
          soon = soon + 1
        end
      end
    elseif string.sub(redis.call('HGET', KEYS[3], id), 1, 8) == ARGV[1] then
      answer = 1
    end
  end
  answers[#answers + 1] = answer
end
local reply = 0
if #added > 0 then
  reply = redis.pcall('ZADD', KEYS[2], unpack(added))
end
if #later > 0 and type(reply) == 'number' then
  reply = redis.pcall('ZADD', KEYS[8], unpack(later))
end
if #ends > 0 and type(reply) == 'number' then
  reply = redis.pcall('HSET', KEYS[4], unpack(ends))
end
if type(reply) == 'table' then -- no permission: the ids are free again
  redis.call('HDEL', KEYS[3], unpack(queued))
  redis.call('ZREM', KEYS[2], unpack(queued))
  redis.call('ZREM', KEYS[8], unpack(queued))
  return reply
end
if #links > 0 then
  redis.call('HSET', KEYS[5], unpack(links))
end
wake(KEYS[6], soon, now)
return answers
