-- other_kind returns what a key is that is no lock of this kind: the start of
-- its value, see "Refusals" in docs/internals/protocol.md. It is for the text
-- of an error, so a read that is denied is none.
local function other_kind(key)
  local function is_wrongtype(reply)
    if type(reply) == 'table' and string.find(tostring(reply.err), 'WRONGTYPE', 1, true) then
      return true
    end
    return false
  end
  local found = redis.pcall('GET', key)
  if is_wrongtype(found) then
    found = redis.pcall('HMGET', key, 'hold')
    if found[1] then
      found[1] = 'relock/1|r|' .. found[1]
    end
  end
  if is_wrongtype(found) then
    found = redis.pcall('ZRANGE', key, '-1', '-1')
  end
  if type(found) == 'table' then
    if found.err and not is_wrongtype(found) then
      return ''
    end
    found = found[1]
  end
  if string.find(tostring(found), '^relock/1|') then
    return string.sub(found, 1, 512)
  end
  return 'alien'
end
