-- A plain lock that is reserved for the waiter is acquired first of all, as in
-- release_alone.lua. A reservation has the name of a waiter.
local held = redis.pcall('GET', KEYS[1])
if held == 'relock/1|w|' .. tostring(ARGV[1]) and string.find(held, ':p', 12, true) and #ARGV == 4 and not KEYS[4] then
  if whole(ARGV[2], 10) and #ARGV[3] > 0 then
    local set = redis.pcall('SET', KEYS[1], ARGV[3], 'PX', ARGV[2])
    if set.err then
      -- The waiter may have the lock by a message already. When memory is full,
      -- PEXPIRE is not refused, and lets the SET after it pass.
      redis.call('PEXPIRE', KEYS[1], ARGV[2])
      redis.call('SET', KEYS[1], ARGV[3], 'PX', ARGV[2])
    end
    return {1}
  end
end
