-- A task that is due within this time in us needs a receiver that knows of it.
-- Each idle receiver asks again after this time.
local period = 1000000

-- wake notifies as many idle receivers, the longest idle first. One that nobody
-- hears for, or that has not asked for long, is passed over. Each asks itself,
-- so a message too many or too few only costs time.
local function wake(idle, count, now)
  local done = 0
  for _ = 1, 16 do
    if done >= count then
      return
    end
    local first = redis.pcall('ZPOPMIN', idle)
    if #first == 0 then -- nobody, or no permission
      return
    end
    if now - first[2] <= 2.5 * period then
      local queue = string.sub(idle, 1, -3)
      local heard = message(string.match(idle, '^([^{]*)queue:{'), queue, string.match(first[1], '^[^:]*'), 'tasks:' .. first[1] .. ' ' .. queue)
      if type(heard) == 'table' then
        return
      end
      if heard > 0 then
        done = done + 1
      end
    end
  end
end
