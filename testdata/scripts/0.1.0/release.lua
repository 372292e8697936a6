-- Give back a plain lock that is ours: at once, or after a minimum hold.
--
-- KEYS[1] the lock
-- ARGV[1] value   ARGV[2] ms to keep the key, 0 for none   ARGV[3] value while it is kept; "" when it never is
--
-- 1: was ours and is released   2: was released before and was kept   0: not ours   -1: the key is of another kind
--
-- A release with nothing to keep ends a keep before it: it is only sent when the minimum hold is over.

local function whole(s)
  if (s ~= '0' and not string.find(s, '^[1-9]%d*$')) or #s > 15 then
    return nil
  end
  return tonumber(s)
end

local keep = whole(ARGV[2])
if #ARGV[1] == 0 or not keep or (keep > 0 and #ARGV[3] == 0) then
  return redis.error_reply('ERR relock: release: bad arguments')
end

local held = redis.pcall('GET', KEYS[1])
if type(held) == 'table' then
  if string.find(held.err, 'WRONGTYPE', 1, true) then
    return -1
  end
  return held
end
if held == ARGV[1] and keep == 0 then
  redis.call('DEL', KEYS[1])
  return 1
end
if #ARGV[3] > 0 and held == ARGV[3] then
  if keep == 0 then
    redis.call('DEL', KEYS[1])
  end
  return 2
end
if held ~= ARGV[1] then
  return 0
end
-- PEXPIRE is never refused for want of memory, and lets the SET after it pass.
redis.call('PEXPIRE', KEYS[1], ARGV[2])
redis.call('SET', KEYS[1], ARGV[3], 'KEEPTTL')
return 1
