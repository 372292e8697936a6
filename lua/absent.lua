-- absent returns the reply of a script that does not find its hold: 0, or -1
-- for a key of another kind. On a replica it returns the READONLY error
-- instead, because a replica may lag. An old connection may still lead to a
-- former master. The write changes nothing: no hash has this field.
local function absent(answer)
  local write = redis.pcall('HDEL', KEYS[1], 'relock:absent:8f0e6d0c-5a4b-4c39-9a41-7f6f2b1f6f5e')
  if type(write) == 'table' and string.find(write.err, 'READONLY', 1, true) then
    return write
  end
  return answer
end

-- refused returns the reply of a script whose first read failed: as absent for
-- a key of another kind, otherwise the error.
local function refused(failure)
  if string.find(failure.err, 'WRONGTYPE', 1, true) then
    return absent(-1)
  end
  return failure
end
