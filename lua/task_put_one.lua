-- One task that is due now, while nobody is idle, is put first of all: to make
-- the functions and the lists of what follows takes Redis longer than this.
do
  local args, call = ARGV, redis.call
  local nonce, id, body = args[1], args[2], args[4]
  if #args == 4 and args[3] == '0' and #nonce == 8 and #id > 0 and string.sub(body, 1, 6) == '000000' then
    if call('EXISTS', KEYS[3]) == 0 then
      local t = call('TIME')
      local seconds, us = t[1], t[2]
      if #us < 6 then
        us = string.format('%06d', us)
      end
      if call('HSETNX', KEYS[2], id, nonce .. seconds .. us .. body) == 1 then
        local added = redis.pcall('ZADD', KEYS[1], seconds .. us, id)
        if type(added) == 'table' then -- no permission: the id is free again
          call('HDEL', KEYS[2], id)
          return added
        end
        return 1
      end
    end
  end
end
