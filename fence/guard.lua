-- Refuse what follows under a token that is lower than one seen before.
--
-- KEYS[1] the guard: the highest token
-- KEYS[2], ... the keys of the script that follows
-- ARGV[1] token
-- ARGV[2] ms to keep the guard
-- ARGV[3], ... the arguments of the script that follows
--
-- an error that begins with STALETOKEN if it refuses, else the script's reply

local guard, token, keep = table.remove(KEYS, 1), table.remove(ARGV, 1), table.remove(ARGV, 1)
local highest = redis.call('GET', guard)
if highest and tonumber(highest) > tonumber(token) then
  return redis.error_reply('STALETOKEN a higher one was seen')
end
redis.call('SET', guard, token, 'PX', keep)
