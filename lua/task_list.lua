-- List ids of tasks that are in one place, or what is paused, some 64 at a
-- time.
--
-- KEYS    d due, l leased, z dead letters, w delayed ones of keys, s due again
--         after an interruption, b behind locks and paused keys, o behind their
--         keys, v what is paused; see docs/internals/queue-design.md
-- ARGV[1] which of these, as its letter
-- ARGV[2] of d, w, s and l those with a score: 0 up to now, 1 above it
-- ARGV[3], [4] where the last call has ended, or "" and "": a score and an id,
--         a member of b and "", or a cursor of o or v and ""
--
-- {where it has ended, as two values, or "" and "" at the end, ids}. Of v, what
-- is paused and since when in the place of each id.

local place = string.find('dlzwsbov', tostring(ARGV[1]), 1, true)
if #ARGV ~= 4 or #ARGV[1] ~= 1 or not place or (ARGV[2] ~= '0' and ARGV[2] ~= '1') then
  return redis.error_reply('ERR relock: task_list: bad arguments')
end
local most, key, ids = 64, KEYS[place], {'', ''}

if ARGV[1] == 'o' or ARGV[1] == 'v' then
  local cursor = ARGV[3]
  if cursor == '' then
    cursor = '0'
  elseif not string.find(cursor, '^[1-9]%d*$') then
    return redis.error_reply('ERR relock: task_list: bad arguments')
  end
  local page = redis.call('HSCAN', key, cursor, 'COUNT', most)
  if page[1] ~= '0' then
    ids[1] = page[1]
  end
  for i = 1, #page[2], 2 do
    local field, value = page[2][i], page[2][i + 1]
    if ARGV[1] == 'o' then
      ids[#ids + 1] = string.sub(value, 17)
    else
      ids[#ids + 1], ids[#ids + 2] = field, value
    end
  end
  return ids
end

if ARGV[1] == 'b' then
  local from = '-'
  if ARGV[3] ~= '' then
    from = '(' .. ARGV[3]
  end
  local entries = redis.call('ZRANGE', key, from, '+', 'BYLEX', 'LIMIT', 0, most)
  for _, entry in ipairs(entries) do
    local length = string.match(entry, '^[k%d](%d%d%d)')
    if string.sub(entry, 1, 1) ~= 'k' then
      length = string.sub(entry, 1, 4)
    end
    ids[#ids + 1] = string.sub(entry, 21 + tonumber(length))
  end
  if #entries == most then
    ids[1] = entries[most]
  end
  return ids
end

local t = redis.call('TIME')
local now = string.format('%.0f', t[1] * 1000000 + t[2])
local from, to = '-inf', '+inf'
if ARGV[1] ~= 'z' and ARGV[2] == '0' then
  to = now
elseif ARGV[1] ~= 'z' then
  from = '(' .. now
end
if ARGV[3] ~= '' then
  from = ARGV[3]
  if not string.find(from, '^%d+$') then
    return redis.error_reply('ERR relock: task_list: bad arguments')
  end
end

-- comes_after reports whether a text is behind another one in the order of
-- bytes, which is that of members with one score. Lua's own depends on the
-- server's locale.
local function comes_after(one, other)
  for i = 1, #one do
    local a, b = string.byte(one, i), string.byte(other, i)
    if not b or a > b then
      return true
    end
    if a < b then
      return false
    end
  end
  return false
end

-- Members with the score at which the last call has ended come again. Those up
-- to the last one are passed over, also if that has gone meanwhile.
for skip = 0, 1000000, most do
  local page = redis.call('ZRANGEBYSCORE', key, from, to, 'WITHSCORES', 'LIMIT', skip, most)
  for i = 1, #page, 2 do
    if page[i + 1] ~= ARGV[3] or comes_after(page[i], ARGV[4]) then
      ids[#ids + 1] = page[i]
    end
  end
  if #page < 2 * most then
    break
  end
  if #ids > 2 then
    ids[1], ids[2] = page[#page], page[#page - 1]
    break
  end
end
return ids
