package lua_test

import (
	"slices"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// With a thousand readers, and a thousand more that wait, no script takes 1 ms.
// The fastest of several runs counts, since a busy machine holds others up.
func TestRWLockThousandsOfReadersCostLittle(t *testing.T) {
	const holders, rounds, limit = 1000, 15, time.Millisecond
	b := NewQueue(t, redistest.Start(t))
	b.Do("CONFIG", "SET", "slowlog-log-slower-than", 0)
	w := WaitNamed("c5", 1, "wf")
	first, newcomer := readers(1, 1)[0], readers(5000, 1)[0]
	many, behind := readers(1, holders), readers(6000, holders)
	taken, freed := []script.Call{w.Try()}, []script.Call{w.Try(), w.Release()}
	var listed []any
	for _, reader := range readers(5000, 64) {
		listed = append(listed, string(reader), 5)
	}
	for name, step := range map[string]struct {
		held   []Wait
		queue  []Wait        // before those behind
		before []script.Call // each makes readers wait
		script script.Call
	}{
		"try":                        {many, nil, nil, newcomer.Try()},
		"try, refused":               {many, nil, nil, w.Try()},
		"enqueue, a writer":          {many, nil, nil, w.Enqueue()},
		"enqueue behind one":         {many, []Wait{w}, nil, newcomer.Enqueue()},
		"enter":                      {many, nil, nil, first.Enter(2, 0, 2, LongLease)},
		"upgrade, refused":           {many, nil, nil, first.Enter(1, 1, 2, LongLease)},
		"renew":                      {many, nil, nil, first.Renew(LongLease)},
		"release, a writer is next":  {many, []Wait{w}, nil, first.Release()},
		"release to readers":         {nil, nil, taken, w.Release()},
		"claim, and more are behind": {nil, nil, freed, newcomer.Claim()},
		"poll":                       {many, []Wait{w}, nil, RWPollAs("c1")},
		"poll, entries were removed": {many, []Wait{w}, nil, RWPollAs("c1", listed...)},
		"poll, some are reserved":    {nil, nil, freed, RWPollAs("c1", listed...)},
		"cancel":                     {many, []Wait{w}, nil, w.Cancel(1)},
		"many have ended":            {many, nil, nil, newcomer.Try()},
	} {
		machine := testkit.NewStopwatch(t)
		var took []time.Duration
		for len(took) < 5 || len(took) < rounds && slices.Min(took) >= limit {
			b.Do("FLUSHALL")
			b.Live("c1", "c5")
			if name == "many have ended" {
				b.Put("f", Lease, "r:c2:1")
				b.Put("f", -time.Second, entries(step.held)...)
			} else if step.held != nil {
				b.Put("f", Lease, entries(step.held)...)
			}
			for _, script := range step.before {
				b.Ask(script)
				if len(b.Waits()) == 0 {
					b.Line(time.Minute, readers(5000, holders)...)
				}
			}
			if step.queue != nil {
				b.Line(time.Minute, append(step.queue, behind...)...)
			}
			step.script.Key = b.Key
			b.Do("SCRIPT", "LOAD", step.script.Script.Source)
			b.Do("SLOWLOG", "RESET")
			r := step.script.ByDigest()
			b.Do(r.Cmd, r.Args...)
			took = append(took, lastScript(b))
		}
		t.Logf("%-30s %v", name, took)
		machine.Check(slices.Min(took), limit, name)
	}
}

// readers returns n waits to read of one client.
func readers(first, n int) (all []Wait) {
	for i := range n {
		all = append(all, WaitNamed("c1", first+i, "sf"))
	}
	return all
}

func entries(readers []Wait) (all []string) {
	for _, w := range readers {
		all = append(all, w.Reads())
	}
	return all
}

// lastScript returns how long the last script took.
func lastScript(b *Queue) time.Duration {
	b.Helper()
	log, err := redis.SlowLogs(b.Do("SLOWLOG", "GET", -1), nil)
	require.NoError(b, err)
	i := slices.IndexFunc(log, func(one redis.SlowLog) bool { return one.Args[0] == "EVALSHA" })
	require.GreaterOrEqual(b, i, 0, "no script in the log")
	return log[i].ExecutionTime
}
