-- Shared by the scripts of a RedLock's node. Waiters are in a list beside the
-- lock, as '<client>:<n>:q' by their time of arrival at this server. A list
-- promises nothing: a waiter asks the nodes again when it is notified that this
-- one was released, and from time to time.

-- notify wakes the first waiter whose client is subscribed. It removes that
-- waiter and the dead ones before it. So a waiter that hangs does not keep the
-- next one from being notified next time.
local function notify(list_key)
  local waiters = redis.pcall('ZRANGE', list_key, 0, 127)
  if waiters.err then
    return
  end
  local notified = 0
  for _, waiter in ipairs(waiters) do
    local receivers = message(string.match(KEYS[1], '^[^{]*'), KEYS[1], string.match(waiter, '^[^:]*'), waiter .. ' ' .. KEYS[1])
    if type(receivers) == 'table' then
      break
    end
    notified = notified + 1
    if receivers > 0 then
      break
    end
  end
  if notified > 0 then
    redis.pcall('ZREMRANGEBYRANK', list_key, 0, notified - 1)
  end
end
