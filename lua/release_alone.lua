-- A lock that the caller holds and nobody waits for is freed first of all.
-- Redis takes longer to define the functions below than to run this.
local held = redis.pcall('GET', KEYS[1])
if held == ARGV[1] and #held > 0 and ARGV[2] == '0' and #ARGV == 3 and #KEYS >= 3 then
  if redis.pcall('EXISTS', KEYS[2]) == 0 then
    local freed = redis.pcall('DEL', KEYS[1], KEYS[3])
    if type(freed) == 'number' then
      return 1
    end
  end
end
