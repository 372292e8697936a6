-- A lock that the caller holds and nobody waits for is freed first of all.
-- Redis takes longer to define the functions below than to run this.
if #ARGV == 5 and #KEYS == 3 and ARGV[3] == '0' and ARGV[5] == '0' then
  local hold = redis.pcall('HMGET', KEYS[1], 'hold')[1]
  if hold == ARGV[2] and #ARGV[1] > 0 and whole(ARGV[4], 2) and redis.pcall('TYPE', KEYS[2]).ok == 'none' then
    local freed = redis.pcall('DEL', KEYS[1], KEYS[3])
    if type(freed) == 'number' then
      return 1
    end
  end
end
