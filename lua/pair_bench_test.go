package lua_test

import (
	"regexp"
	"strconv"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/redistest"
)

// BenchmarkPairs prints what a pair of taking and releasing a lock costs the
// server, by INFO commandstats: the time of both scripts, and the commands that
// they run. Those "in full" are without the paths in front of the functions of
// the queue.
//
//	go test -run NONE -bench Pairs ./lua
func BenchmarkPairs(b *testing.B) {
	full := inFull(b)
	plain, read, write := WaitNamed("c1", 1, "pu"), WaitNamed("c1", 1, "su"), WaitNamed("c1", 1, "wu")
	permit, beside := PermitNamed("c1", 1, "u", 8, 0), PermitNamed("c2", 1, "u", 8, 0)
	reader := WaitNamed("c2", 1, "su")
	for _, tt := range []struct {
		name  string
		first []Wait // hold the lock meanwhile
		pair  [2]script.Call
	}{
		{"plain", nil, [2]script.Call{AcquireOf(plain.Body(), "", Lease), plain.Release()}},
		{"read", nil, [2]script.Call{read.Try(), read.Release()}},
		{"read, blocking", nil, [2]script.Call{read.Enqueue(), read.Release()}},
		{"read beside another", []Wait{reader}, [2]script.Call{read.Try(), read.Release()}},
		{"write", nil, [2]script.Call{write.Try(), write.Release()}},
		{"semaphore", nil, [2]script.Call{permit.Try(), permit.Release()}},
		{"semaphore, blocking", nil, [2]script.Call{permit.Enqueue(), permit.Release()}},
		{"semaphore beside another", []Wait{beside}, [2]script.Call{permit.Try(), permit.Release()}},
	} {
		b.Run(tt.name, func(b *testing.B) { benchPair(b, tt.first, tt.pair) })
		in, differs := tt.pair, false
		for i := range in {
			if other := full[in[i].Script]; other != nil {
				in[i].Script, differs = other, true
			}
		}
		if differs {
			b.Run(tt.name+", in full", func(b *testing.B) { benchPair(b, tt.first, in) })
		}
	}
}

// benchPair runs a pair of scripts again and again, on a separate server.
func benchPair(b *testing.B, first []Wait, pair [2]script.Call) {
	q := NewHeld(b, redistest.Start(b), first...)
	var requests [2]struct {
		cmd  string
		args []any
	}
	for i, call := range pair {
		call.Key = q.Key
		r := call.ByDigest()
		r.Args[0] = q.Do("SCRIPT", "LOAD", call.Script.Source) // a changed script has another digest
		requests[i].cmd, requests[i].args = r.Cmd, r.Args
	}
	q.Do("CONFIG", "RESETSTAT")
	for b.Loop() {
		for _, r := range requests {
			q.Do(r.cmd, r.args...)
		}
	}
	scripts, commands := commandStats(b, q)
	b.ReportMetric(scripts/float64(b.N), "server-µs/op")
	b.ReportMetric(commands/float64(b.N), "commands/op")
}

var statLine = regexp.MustCompile(`(?m)^cmdstat_([\w|]+):calls=(\d+),usec=(\d+)`)

// commandStats returns the microseconds of all scripts, and how many commands
// they have run.
func commandStats(t testing.TB, q *Queue) (scripts, commands float64) {
	t.Helper()
	text, err := redis.String(q.Do("INFO", "commandstats"), nil)
	require.NoError(t, err)
	for _, found := range statLine.FindAllStringSubmatch(text, -1) {
		calls, _ := strconv.ParseFloat(found[2], 64) // \d+
		took, _ := strconv.ParseFloat(found[3], 64)
		switch found[1] {
		case "evalsha":
			scripts = took
		case "info", "config|resetstat":
		default:
			commands += calls
		}
	}
	return scripts, commands
}
