-- Read tasks, and where they are.
--
-- KEYS    d due, l leased, p records, m attempts, o behind their keys, z dead
--         letters, w delayed ones of keys, s due again after an interruption, b
--         behind locks and paused keys, v what is paused; see
--         docs/internals/queue-design.md
-- ARGV[1] dead letters that are kept   ARGV[2] for so many ms
-- ARGV[3] how many bytes of records at most, but at least one record
-- ARGV[4], and so on: ids, at most 64
--
-- {the time, 1 if the queue is paused or 0, how many of the ids were looked
-- for}, and for each task that is there: its id; where it is, one of d, l, z,
-- w, s, o for behind a task, b behind a lock, p behind the pause of its key, or
-- "" if that is not known; its score there, or ""; what is stored of its
-- attempts; what it is behind, or ""; 1 if its key is paused or 0; its record.

if #ARGV < 4 or #ARGV > 67 then
  return redis.error_reply('ERR relock: task_get: bad arguments')
end
local letters, age, size = whole(ARGV[1], 0), whole(ARGV[2], 0), whole(ARGV[3], 1)
if not letters or not age or not size then
  return redis.error_reply('ERR relock: task_get: bad arguments')
end
local ids = {}
for i = 4, #ARGV do
  ids[i - 3] = ARGV[i]
end
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local oldest = oldest_kept(KEYS[6], letters, age, now)
local places = {'d', 's', 'w', 'l', 'z'}
local scores = {}
for i, set in ipairs({KEYS[1], KEYS[8], KEYS[7], KEYS[2], KEYS[6]}) do
  scores[i] = redis.call('ZMSCORE', set, unpack(ids))
end

-- unescape is the reverse of escape.
local function unescape(digits)
  return string.char(tonumber(digits, 16))
end

-- aside returns where a task is that is in none of these sets, and what it is
-- behind. link is what follows the one before it.
local function aside(id, record, meta, before, link)
  local ticket, key = parts(record)
  if string.sub(tostring(link), 17) == id then
    return 'o', before
  end
  if redis.call('ZSCORE', KEYS[9], behind_pause(key) .. ticket .. id) then
    return 'p', ''
  end
  local _, _, _, _, _, _, name = read_meta(meta)
  local lock = string.gsub(string.sub(name, 2), '%%(%x%x)', unescape)
  if redis.call('ZSCORE', KEYS[9], behind_lock(lock) .. ticket .. id) then
    return 'b', lock
  end
  return '', ''
end

-- where returns the place of the task with this number, and its score there.
local function where(i)
  for set, place in ipairs(places) do
    if scores[set][i] then
      return place, scores[set][i]
    end
  end
  return nil, ''
end

-- Each hash is read for several tasks together, records 8 at a time: what is
-- read beyond the size is bounded.
local records, bytes = {}, 0
for first = 1, #ids, 8 do
  if bytes > size then
    break
  end
  for _, record in ipairs(redis.call('HMGET', KEYS[3], unpack(ids, first, math.min(first + 7, #ids)))) do
    bytes = bytes + #tostring(record)
    if #records == 0 or bytes <= size then
      records[#records + 1] = record
    end
  end
end
local keys, before = {}, {}
for i, record in ipairs(records) do
  local _, key, _, id = parts(tostring(record))
  if not id then -- apart
    id = ''
  end
  keys[i], before[i] = key, id
end
local links, pauses = redis.call('HMGET', KEYS[5], unpack(before)), {}
local stored = redis.call('HMGET', KEYS[4], unpack(ids, 1, #records))
local answer = {text(now), 0, #records}
if redis.call('HLEN', KEYS[10]) > 0 then
  pauses = redis.call('HMGET', KEYS[10], '\0', unpack(keys))
  if pauses[1] then
    answer[2] = 1
  end
end
for i, record in ipairs(records) do
  local id, meta, behind, held = ids[i], tostring(stored[i]), '', 0
  local place, score = where(i)
  if record and (place ~= 'z' or tonumber(score) >= oldest) then
    if not place then
      place, behind = aside(id, record, meta, before[i], links[i])
    end
    if pauses[i + 1] then
      held = 1
    end
    for _, value in ipairs({id, place, score, meta, behind, held, record}) do
      answer[#answer + 1] = value
    end
  end
end
return answer
