-- absent is the answer of a script that does not find what it looks for: 0, or -1 for something else in its place. A replica may not have
-- it yet, or no more, such as the master before a failover, to which an old connection leads: it refuses each write, so also one that
-- changes nothing: no hash has a field of that name, whoever's it is.
local function absent(answer)
  local write = redis.pcall('HDEL', KEYS[1], 'relock:absent:8f0e6d0c-5a4b-4c39-9a41-7f6f2b1f6f5e')
  if type(write) == 'table' and string.find(write.err, 'READONLY', 1, true) then
    return write
  end
  return answer
end
