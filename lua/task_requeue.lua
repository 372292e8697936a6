-- Queue dead letters once more, as if they were new.
--
-- KEYS n the last number, d due, p records, m attempts, k last ids of
--      keys, o behind their keys, i idle receivers, z dead letters; see
--      docs/internals/queue-design.md
-- ARGV ids, at most 64
--
-- {how many were dead letters, how many ids were looked at}, see revive_all

if #ARGV == 0 or #ARGV > 64 then
  return redis.error_reply('ERR relock: task_requeue: bad arguments')
end
may(KEYS[2], KEYS[4])
local ticket, now = draw(KEYS[1], #ARGV)
return {revive_all(ARGV, ticket, now)}
