-- What is stored of a task that was received: how many attempts it has had, and
-- how often it was interrupted; its fence, 0 unless it is delivered; its ticket
-- and its key; and after a zero byte, which no key contains, why the last
-- attempt has failed, or why it died. The fence is a number, @ and the token of
-- the receiver: of two masters in a failover, each may give the same number. A
-- slash may follow, and what names its client, or escaped the lock that it is
-- behind. A task that was interrupted is suspect.

-- read_meta returns attempts, interruptions as a number, the fence with its
-- token, ticket, key, the reason with its zero byte or "", and what follows the
-- fence with its slash or "". It returns nil for the attempts if others have
-- damaged it.
local form = '^(%d+)(~?%d*) (%d+@?%w*)(%S*) (%d+) (%Z*)(.*)$'
local function read_meta(stored)
  local attempt, interrupted, fence, who, ticket, key, said = string.match(tostring(stored), form)
  if not attempt then
    return nil, 0, nil, nil, nil, '', ''
  end
  local count = tonumber(string.sub(interrupted, 2))
  if count then
    return attempt, count, fence, ticket, key, said, who
  end
  return attempt, 0, fence, ticket, key, said, who
end

-- attempts_text returns how many attempts and interruptions a task has had.
local function attempts_text(attempt, interrupted)
  if interrupted == 0 then
    return string.format('%.0f', attempt)
  end
  return string.format('%.0f~%.0f', attempt, interrupted)
end

-- meta_of returns what is stored.
local function meta_of(attempt, interrupted, fence, ticket, key, said)
  return attempts_text(attempt, interrupted) .. ' ' .. fence .. ' ' .. ticket .. ' ' .. key .. said
end

-- due_of returns the set in which such a task is due.
local function due_of(interrupted, due, suspect)
  if interrupted > 0 then
    return suspect
  end
  return due
end
