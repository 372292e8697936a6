-- absent is the answer of a script that does not find what it looks for: 0, or -1 for something else in its place. A replica may not have
-- it yet, or no more, such as the master before a failover, to which an old connection leads: it refuses each write, so also one that
-- changes nothing anywhere.
local function absent(answer)
  local write = redis.pcall('HDEL', KEYS[1], '')
  if type(write) == 'table' and string.find(write.err, 'READONLY', 1, true) then
    return write
  end
  return answer
end
