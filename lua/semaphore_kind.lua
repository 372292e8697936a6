-- What the scripts of a semaphore have in front. They are those of a read/write
-- lock with other waiters (see rw.lua), and have the same keys:
--
-- KEYS[1] the permits: a sorted set. Each entry ends at its score, a time of
--   the server in us.
--   'r:<hold>' is a permit in use. 'k:<hold>' was released, and is kept for its
--   minimum hold; 'f:<hold>' was ended by force, and is kept likewise.
--   'v:<waiter>' is a reservation.
--   Besides: '#<hold>', of a permit in use, the end of its minimum hold as a
--   number below 0; and, for ever, 'relock/1|cf' (fair) or 'relock/1|cu'.
--
-- A waiter is '<client>:<n>:c<mode>:<claim timeout>:<permits>:<minimum hold>'.
-- The limit is that of the waiter, and each entry counts as one permit. So
-- nothing has to be counted back after a crash.

-- The name of a waiter: hold, client, kind, mode, claim timeout, permits,
-- minimum hold in ms.
local waiter_name = '^(([^:]+):%d+):(c)([fu]):([1-9]%d*):([1-9]%d*):(%d+)$'

-- The entry of the mode, without it and as a pattern.
local marker, marked = 'relock/1|c', '^relock/1|c([fu])$'

-- grant returns the reply to a waiter that has a permit. Its holds are side by
-- side, so there are no fencing tokens.
local function grant()
  return {1}
end
