-- Read the notice that holds were ended by force. Writes nothing.
--
-- KEYS[1] the notice: a hash with a field for each hold, and the reason in
--   'why'
-- ARGV[1], ... the fields that mean the caller's hold
--
-- the reason, or nil if it has none of the fields

local found = redis.call('HMGET', KEYS[1], 'why', unpack(ARGV))
for i = 2, #found do
  if found[i] then
    return found[1]
  end
end
return nil
