-- Queue dead letters once more that died in a time, as if they were new: up to
-- 64, the oldest first.
--
-- KEYS    n the last number, d due, p records, m attempts, k last ids of keys,
--         o behind their keys, i idle receivers, z dead letters; see
--         docs/internals/queue-design.md
-- ARGV[1] from which number on   ARGV[2] below which number
-- ARGV[3] dead letters that are kept   ARGV[4] for so many ms
--
-- {how many were queued, 1 if there may be more, from which number on, a number
-- above that of every letter so far}. The limit of dead letters leaves out the
-- oldest ones. It must go on to do so once newer ones have left, so the next
-- request begins where this one did. See revive_all.

if #ARGV ~= 4 or not string.find(ARGV[1], '^%d+$') or not string.find(ARGV[2], '^%d+$') then
  return redis.error_reply('ERR relock: task_requeue_died: bad arguments')
end
local letters, age = whole(ARGV[3], 0), whole(ARGV[4], 0)
if not letters or not age then
  return redis.error_reply('ERR relock: task_requeue_died: bad arguments')
end
may(KEYS[2], KEYS[4])
local ticket, now = draw(KEYS[1], 64)
local from = text(math.min(9007199254740992, math.max(ARGV[1], oldest_kept(KEYS[8], letters, age, now))))
local ids = redis.call('ZRANGEBYSCORE', KEYS[8], from, '(' .. ARGV[2], 'LIMIT', 0, 64)
local queued, looked = revive_all(ids, ticket, now)
local more = 0
if #ids == 64 or looked < #ids then
  more = 1
end
return {queued, more, from, text(ticket)}
