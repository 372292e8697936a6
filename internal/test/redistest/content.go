package redistest

import (
	"fmt"
	"testing"

	"github.com/gomodule/redigo/redis"
)

// Content returns all that a key holds, except its expiry. DUMP does not suit:
// it returns fields and members in an order that the server may change.
func (s *Server) Content(tb testing.TB, key string) string {
	tb.Helper()
	conn := s.Dial(tb)
	defer conn.Close() //nolint:errcheck // the command's error counts
	return ContentOver(tb, conn, key)
}

// ContentOver is [Server.Content] on a connection of the test.
func ContentOver(tb testing.TB, conn redis.Conn, key string) string {
	tb.Helper()
	reply, err := conn.Do("EVAL", contentSource, 1, key)
	if err != nil {
		tb.Fatalf("content of %q: %v", key, err)
	}
	return fmt.Sprintf("%q", reply)
}

const contentSource = `
local kind = redis.call('TYPE', KEYS[1]).ok
local read = {
  none = {}, string = {'GET', KEYS[1]}, list = {'LRANGE', KEYS[1], 0, -1},
  zset = {'ZRANGE', KEYS[1], 0, -1, 'WITHSCORES'}, hash = {'HGETALL', KEYS[1]},
  set = {'SMEMBERS', KEYS[1]}, stream = {'XRANGE', KEYS[1], '-', '+'},
}
if kind == 'none' then
  return kind
end
local content = redis.call(unpack(read[kind]))
if kind == 'hash' then
  local fields = {}
  for i = 1, #content, 2 do
    fields[#fields + 1] = content[i] .. '\0' .. content[i + 1]
  end
  content = fields
end
if kind == 'hash' or kind == 'set' then
  table.sort(content)
end
return {kind, content}`
