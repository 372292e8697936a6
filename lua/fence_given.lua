-- given reports whether a fencing token is no higher than the last one of a
-- lock's counter. The counter may have expired before a detached lock. Then the
-- limit is the server's time, which the next token cannot be below.
local function given(counter, fence)
  local last = tonumber(redis.call('GET', counter))
  if not last then
    local t = redis.call('TIME')
    last = t[1] * 1000000 + t[2]
  end
  return tonumber(fence) <= last
end

-- may_be_token reports whether a request has no fencing token, or one with a
-- counter.
local function may_be_token(fence, counter)
  if not fence then
    return true
  end
  if not counter then
    return false
  end
  return string.find(fence, '^[1-9]%d*$')
end
