-- maximum is how many bytes of records that join their keys one receive reads,
-- or little more.
local maximum = 4194304

-- join_key adds to the changes that a delayed task joins its key: as the head,
-- which is due, or behind the last one.
local function join_key(changes, lasts, id, record, now)
  local ticket, key, from = parts(record)
  local before = false
  if #key > 0 then -- else it is damaged
    before = changes.known[key]
    if not before then
      before = redis.call('HGET', lasts, key)
    end
    changes.known[key] = id
    table.insert(changes.ends, key)
    table.insert(changes.ends, id)
    table.insert(changes.records, id)
    table.insert(changes.records, placed(record, ticket, from, before))
  end
  if before then
    table.insert(changes.links, before)
    table.insert(changes.links, ticket .. id)
  else
    table.insert(changes.heads, due_at(ticket, now))
    table.insert(changes.heads, id)
  end
end

-- join lets delayed tasks that are due join their keys, at most 64. So those of
-- a blocked key take no place among tasks that may run. It returns whether
-- there may be more.
local function join(delayed, due, payloads, lasts, behind, now)
  local ids = redis.call('ZRANGEBYSCORE', delayed, '-inf', text(now), 'LIMIT', '0', '64')
  if #ids == 0 then
    return false
  end
  local more, joined, bytes = #ids == 64, {}, 0
  local changes = {known = {}, records = {}, ends = {}, links = {}, heads = {}}
  for first = 1, #ids, 8 do -- what is read beyond the maximum is bounded
    if bytes > maximum then
      more = true
      break
    end
    for i, record in ipairs(redis.call('HMGET', payloads, unpack(ids, first, math.min(first + 7, #ids)))) do
      local id = ids[first + i - 1]
      joined[#joined + 1] = id
      if record then -- else others have deleted it
        bytes = bytes + #record
        join_key(changes, lasts, id, record, now)
      end
    end
  end
  if #changes.ends > 0 then
    redis.call('HSET', payloads, unpack(changes.records))
    redis.call('HSET', lasts, unpack(changes.ends))
  end
  if #changes.links > 0 then
    redis.call('HSET', behind, unpack(changes.links))
  end
  if #changes.heads > 0 then
    redis.call('ZADD', due, unpack(changes.heads))
  end
  redis.call('ZREM', delayed, unpack(joined))
  return more
end
