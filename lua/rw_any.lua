-- The entry of the mode of a read/write lock or a semaphore, as a pattern.
local marked = '^relock/1|(c?[fu])$'
