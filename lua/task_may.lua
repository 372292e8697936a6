-- may fails if the user lacks a command by which tasks are moved. Scripts that
-- move tasks call it before their first write: an error between two writes
-- would leave a task nowhere. It changes nothing, as no id is empty. It begins
-- with a command that is never refused for want of memory.
local function may(set, hash)
  redis.call('ZREM', set, '')
  redis.call('HDEL', hash, '')
  redis.call('ZADD', set, 'XX', '0', '')
end
