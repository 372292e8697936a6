-- A lock that the caller holds and nobody waits for is freed first of all.
-- Redis takes longer to define the functions below than to run this.
if #ARGV == 3 and #KEYS >= 3 and ARGV[2] == '0' then
  local value = redis.pcall('GET', KEYS[1])
  if value == ARGV[1] and #value > 0 and redis.pcall('TYPE', KEYS[2]).ok == 'none' then
    local freed = redis.pcall('DEL', KEYS[1], KEYS[3])
    if type(freed) == 'number' then
      return 1
    end
  end
end
