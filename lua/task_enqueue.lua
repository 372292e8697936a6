-- Put tasks into a queue.
--
-- KEYS    n the last number, d due, p records, k heads of keys, o behind their
--         keys, i idle receivers, u done ids; see docs/queue-design.md
-- ARGV[1] 8 bytes that are drawn for this call
-- ARGV[2] 1 if ids that are done are refused for a while, 0 if not
-- ARGV[3], and so on: for each task its id, its delay in ms, and its body:
--         3 digits, a key of that length, and what no script reads
--
-- For each task 1: queued, also by an earlier copy. 0: its id is in use.

if #ARGV < 5 or #ARGV % 3 ~= 2 or #ARGV[1] ~= 8 or (ARGV[2] ~= '0' and ARGV[2] ~= '1') then
  return redis.error_reply('ERR relock: task_enqueue: bad arguments')
end
local ordered = false
for i = 3, #ARGV, 3 do
  local body = ARGV[i + 2]
  local size = tonumber(string.match(body, '^%d%d%d'))
  if #ARGV[i] == 0 or not whole(ARGV[i + 1], 0) or not size or #body < 3 + size or string.find(string.sub(body, 4, 3 + size), '%z') then
    return redis.error_reply('ERR relock: task_enqueue: bad arguments')
  end
  if size > 0 then
    ordered = true
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
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local ticket = now
if ordered then
  ticket, now = draw(KEYS[1], (#ARGV - 2) / 3)
end
local answers, added, soon = {}, {}, 0
redis.call('ZADD', KEYS[2], 'XX', 0, '') -- fails before the first write, if at all
if #ARGV > 5 then
  redis.call('HGET', KEYS[3], '')
end
for i = 3, #ARGV, 3 do
  local id, delay, body, answer = ARGV[i], tonumber(ARGV[i + 1]), ARGV[i + 2], 0
  local at = ticket
  if delay > 0 then
    at = now + delay * 1000
  end
  local due = at
  if delay == 0 and ticket > now + period then -- the clock was set back
    due = now + #answers
  end
  ticket = ticket + 1
  local score = string.format('%016.0f', at)
  if not is_done(id, now) then
    if redis.call('HSETNX', KEYS[3], id, ARGV[1] .. score .. body) == 1 then
      answer = 1
      local key = string.sub(body, 4, 3 + string.sub(body, 1, 3))
      if delay == 0 and #key > 0 and redis.call('HSETNX', KEYS[4], key, id) == 0 then
        redis.call('ZADD', KEYS[5], 0, key .. '\0' .. score .. '\0' .. id)
      else
        added[#added + 1] = string.format('%.0f', due)
        added[#added + 1] = id
        if due <= now + period then
          soon = soon + 1
        end
      end
    elseif string.sub(redis.call('HGET', KEYS[3], id), 1, 8) == ARGV[1] then
      answer = 1
    end
  end
  answers[#answers + 1] = answer
end
if #added > 0 then
  redis.call('ZADD', KEYS[2], unpack(added))
  wake(KEYS[6], soon, now)
end
return answers
