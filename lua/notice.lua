-- Read the notice that a hold was ended by force. Writes nothing.
--
-- KEYS[1] the notice
--
-- its text, see force.lua, or nil

return redis.call('GET', KEYS[1])
