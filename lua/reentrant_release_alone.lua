-- A lock that the caller holds and nobody waits for is freed first of all.
-- Redis takes longer to define the functions below than to run this.
if ARGV[3] == '0' and ARGV[5] == '0' and #ARGV == 5 and #KEYS == 3 and #ARGV[1] > 0 and whole(ARGV[4], 2) then
  if redis.pcall('HMGET', KEYS[1], 'hold')[1] == ARGV[2] and redis.pcall('EXISTS', KEYS[2]) == 0 then
    local freed = redis.pcall('DEL', KEYS[1], KEYS[3])
    if type(freed) == 'number' then
      return 1
    end
  end
end
