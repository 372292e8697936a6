-- Shared by the scripts that send messages to clients.
--
-- A client whose name ends with '~' listens to a sharded channel for each key,
-- '<key>:<client>', which is in the slot of the key. Others, and those whose
-- server has no sharded channels for them, listen to '<prefix><client>'.

-- message sends a text about a key to a client. It returns how many receive it,
-- or an error if it may not be sent. It never fails.
local function message(prefix, key, client, text)
  if string.byte(client, -1) ~= 126 then -- '~'
    return redis.pcall('PUBLISH', prefix .. client, text)
  end
  local sharded = redis.pcall('SPUBLISH', key .. ':' .. client, text)
  if type(sharded) == 'number' and sharded > 0 then
    return sharded
  end
  local receivers = redis.pcall('PUBLISH', prefix .. client, text)
  if type(receivers) == 'table' then
    return sharded
  end
  return receivers
end
