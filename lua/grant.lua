-- grant returns the reply to a waiter that has the lock, with a fencing token
-- if the lock has a counter. It runs before the hold is made: if the token is
-- refused, there must be no hold. Only grants of an unfair plain lock set
-- tokens aside, because only that is handed off in memory.
local function grant(counter, waiter)
  if not counter then
    return {1}
  end
  if string.find(waiter, ':pu:', 1, true) then
    return {1, token(counter, block)}
  end
  return {1, token(counter, 0)}
end
