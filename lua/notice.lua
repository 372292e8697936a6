-- Read the notice that holds were ended by force. Writes nothing.
--
-- KEYS[1] the notice: a hash with the reason for each hold
-- ARGV[1], ... what the notice may call the caller's hold
--
-- the reason, or nil if it has none of them

for _, reason in ipairs(redis.call('HMGET', KEYS[1], unpack(ARGV))) do
  if reason then
    return reason
  end
end
return nil
