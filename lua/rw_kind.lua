-- What the scripts of a read/write lock have in front, in place of
-- semaphore_kind.lua.

-- The name of a waiter: hold, client, kind, mode, claim timeout.
local waiter_name = '^(([^:]+):%d+):([sw])([fu]):([1-9]%d*)$'

-- The entry of the mode, without it and as a pattern.
local marker, marked = 'relock/1|', '^relock/1|([fu])$'
