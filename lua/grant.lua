-- grant is the answer to a wait that has the lock: with a fencing token, when the lock has a counter. It comes before what makes the hold,
-- so that a token which is refused leaves none.
local function grant(counter)
  if counter then
    return {1, token(counter)}
  end
  return {1}
end
