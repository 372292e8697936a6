package lua_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/scripttest"
)

// With a thousand readers, and a thousand more that wait, no script takes 1 ms.
// The fastest of several runs counts, since a busy machine holds others up.
func TestRWLockThousandsOfReadersCostLittle(t *testing.T) {
	const holders, rounds, limit = 1000, 15, time.Millisecond
	b := scripttest.NewReadWrite(t, redistest.Start(t))
	b.Do("CONFIG", "SET", "slowlog-log-slower-than", 0)
	reader := func(n int) scripttest.RWWait { return scripttest.RWWaitNamed("c1", n, "sf") }
	w := scripttest.RWWaitNamed("c5", 1, "wf")
	for name, step := range map[string]struct {
		holders int
		queue   []scripttest.RWWait
		before  []script.Call
		script  script.Call
	}{
		"try":                        {holders, nil, nil, reader(5000).Try()},
		"try, refused":               {holders, nil, nil, w.Try()},
		"enqueue, a writer":          {holders, nil, nil, w.Enqueue()},
		"enqueue behind one":         {holders, []scripttest.RWWait{w}, nil, reader(5000).Enqueue()},
		"enter":                      {holders, nil, nil, reader(1).Enter(2, 0, 2, scripttest.LongLease)},
		"upgrade, refused":           {holders, nil, nil, reader(1).Enter(1, 1, 2, scripttest.LongLease)},
		"renew":                      {holders, nil, nil, reader(1).Renew(scripttest.LongLease)},
		"release, a writer is next":  {holders, []scripttest.RWWait{w}, nil, reader(1).Release()},
		"release to readers":         {0, nil, []script.Call{w.Try()}, w.Release()},
		"claim, and more are behind": {0, nil, []script.Call{w.Try(), w.Release()}, reader(5000).Claim()},
		"poll":                       {holders, []scripttest.RWWait{w}, nil, scripttest.RWPollAs("c1")},
		"poll, entries were removed": {holders, []scripttest.RWWait{w}, nil, scripttest.RWPollAs("c1", scripttest.ListedReaders(64)...)},
		"poll, some are reserved":    {0, nil, []script.Call{w.Try(), w.Release()}, scripttest.RWPollAs("c1", scripttest.ListedReaders(64)...)},
		"cancel":                     {holders, []scripttest.RWWait{w}, nil, w.Cancel(1)},
		"many have ended":            {-holders, nil, nil, reader(5000).Try()},
	} {
		var took []time.Duration
		for range rounds {
			b.Do("FLUSHALL")
			b.Show(map[string]scripttest.Heartbeat{"c1": {Age: 0, Counted: 0}, "c5": {Age: 0, Counted: 0}})
			b.Holders(step.holders)
			for _, script := range step.before {
				b.Ask(script)
				if len(b.Waits()) == 0 {
					b.Crowd(scripttest.ReadersFrom(5000, holders)...)
				}
			}
			if len(step.queue) > 0 {
				b.Crowd(append(step.queue, scripttest.ReadersFrom(6000, holders)...)...)
			}
			step.script.Key = b.Key
			b.Do("SCRIPT", "LOAD", step.script.Script.Source)
			b.Do("SLOWLOG", "RESET")
			r := step.script.ByDigest()
			b.Do(r.Cmd, r.Args...)
			took = append(took, b.LastScript())
			if len(took) >= 5 && slices.Min(took) < limit {
				break
			}
		}
		t.Logf("%-30s %v", name, took)
		require.Less(t, slices.Min(took), limit, name)
	}
}
