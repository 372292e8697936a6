package doctor

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/relock-go/relock"
)

// attempts are the commands of scripts, with arguments under which each leaves
// nothing. S is a string that the script makes, with an expiry. N is no key,
// and C is a channel. A command for another type of S is refused only after the
// permission was checked.
var attempts = strings.Fields(`set:S:v:px:10000 get:N del:N exists:N pttl:N pexpire:N:1 hmget:N:f hset:S:f:v hdel:N:f
	time hget:N:f hrandfield:N zadd:N:xx:1:m zcard:N zrem:N:m zrange:N:0:0
	zscore:N:m zmscore:N:m zremrangebyrank:N:0:0 publish:C:m
	zrangebyscore:N:0:0 zrevrangebyscore:N:0:0 zcount:N:0:0 zremrangebyscore:N:0:0 mget:N info hgetall:N
	hlen:N hscan:N:0 hsetnx:S:f:v hstrlen:N:f`)

// needs are what each part of relock needs, as in docs/operations.md.
var needs = []struct {
	part, commands string
	level          Level
}{
	{"plain locks", "set get del exists pttl pexpire hmget hset hdel", Fail},
	{"waiting", "time hget hrandfield zadd zcard zrem zrange zscore zmscore zremrangebyrank publish", Warn},
	{"read/write locks and semaphores", "zrangebyscore zrevrangebyscore zcount zremrangebyscore", Warn},
	{"several keys", "mget", Warn},
	{"RedLock", "info", Warn},
	{"inspection", "time zcard zrange hgetall", Warn},
}

// queues is what package queue needs, as in docs/queue.md.
const queues = `time get set exists hget hmget hset hsetnx hdel hlen hscan hstrlen zadd zrem
	zrange zrangebyscore zscore zmscore zcard zcount publish`

// tryAll returns the names of the commands that are refused. If the first one
// is, S is no string, and hset could make it: no other one is tried.
var tryAll = relock.NewScript(`
local stands = {S = KEYS[1], N = KEYS[2], C = ARGV[2]}
local refused = {}
for _, call in ipairs(cjson.decode(ARGV[1])) do
	for i, word in ipairs(call) do
		call[i] = stands[word] or word
	end
	local reply = redis.pcall(unpack(call))
	if type(reply) == 'table' and reply.err and not string.find(reply.err, '^WRONGTYPE') then
		table.insert(refused, call[1])
		if #refused == 1 and call[1] == 'set' then
			return refused
		end
	end
end
redis.pcall('del', KEYS[1])
return refused`)

// permissions names what the user may not do.
func (d *doctor) permissions(ctx context.Context) {
	var calls [][]string
	for _, one := range attempts {
		calls = append(calls, strings.Split(one, ":"))
	}
	text, _ := json.Marshal(calls) // strings always have a text
	name := d.Prefix + "{" + d.key + "}"
	var reply any
	err := d.within(ctx, func(ctx context.Context) (err error) {
		reply, err = d.client.Eval(ctx, tryAll, []string{name, name + ":none"}, string(text), name)
		return err
	})
	if err != nil {
		d.find("permissions", Fail, "give the user +eval and +evalsha, and the keys ~"+d.Prefix+"*", "%v", err)
		return
	}
	all, _ := reply.([]any)
	before := len(d.findings)
	for _, need := range needs {
		const remedy = "docs/operations.md has all commands and channels, under Permissions"
		if lacks := lacking(need.commands, all); lacks != "" {
			d.find("permissions", need.level, remedy, "%s lack%s", need.part, lacks)
		}
	}
	if len(d.findings) == before {
		d.find("permissions", OK, "", "all commands of locks are permitted")
	}
	d.permissionsOfQueues(all)
}

// permissionsOfQueues is only a hint: nothing shows whether the user has
// queues, and a user of locks should not have more permissions than they need.
func (d *doctor) permissionsOfQueues(refused []any) {
	const check = "permissions of queues"
	if lacks := lacking(queues, refused); lacks != "" {
		d.find(check, OK, "if the user has queues, see docs/queue.md, Permissions", "queues lack%s", lacks)
		return
	}
	d.find(check, OK, "", "all commands of queues are permitted")
}

// lacking returns those of the commands that are refused, as rules of an ACL.
func lacking(commands string, refused []any) (rules string) {
	for _, name := range strings.Fields(commands) {
		if slices.Contains(refused, any(name)) {
			rules += " +" + name
		}
	}
	return rules
}
