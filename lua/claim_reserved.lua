-- A plain lock that is reserved for the waiter is acquired first of all, as in
-- release_alone.lua.
if string.find(ARGV[1], '^[^:]+:%d+:p[fu]:[1-9]%d*$') and #ARGV == 4 and not KEYS[4] and whole(ARGV[2], 10) and #ARGV[3] > 0 then
  if redis.pcall('GET', KEYS[1]) == 'relock/1|w|' .. ARGV[1] then
    redis.call('SET', KEYS[1], ARGV[3], 'PX', ARGV[2])
    return {1}
  end
end
