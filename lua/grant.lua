-- grant is the answer to a wait that has the lock: with a fencing token, when
-- the lock has a counter. It comes before what makes the hold, so that a token
-- which is refused leaves none. Only an unfair plain lock is passed on in
-- memory, so only its grants set tokens aside.
local function grant(counter, wait)
  if not counter then
    return {1}
  end
  if string.find(wait, ':pu:', 1, true) then
    return {1, token(counter, block)}
  end
  return {1, token(counter, 0)}
end
