package acquire_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/scripttest"
)

// With a thousand who read, and a thousand who wait to, no script takes more than a millisecond: the fastest of many runs, since a busy
// machine holds others up.
func TestRWLockThousandsOfReadersCostLittle(t *testing.T) {
	const holders, rounds, limit = 1000, 15, time.Millisecond
	s := locktest.Taught(t, redistest.Start(t))
	s.Do(t, "CONFIG", "SET", "slowlog-log-slower-than", "0")
	b := scripttest.NewReadWrite(t, s)
	reader := func(n int) scripttest.RWWait { return scripttest.RWWaitNamed("c1", n, "sf") }
	w := scripttest.RWWaitNamed("c5", 1, "wf")
	steps := map[string]struct {
		holders int
		line    []scripttest.RWWait
		before  []script.Call
		script  script.Call
	}{
		"try":                          {holders, nil, nil, reader(5000).Try()},
		"try, refused":                 {holders, nil, nil, w.Try()},
		"enqueue, one who writes":      {holders, nil, nil, w.Enqueue()},
		"enqueue behind one":           {holders, []scripttest.RWWait{w}, nil, reader(5000).Enqueue()},
		"enter":                        {holders, nil, nil, reader(1).Enter(2, 0, 2, scripttest.LongLease)},
		"upgrade, refused":             {holders, nil, nil, reader(1).Enter(1, 1, 2, scripttest.LongLease)},
		"renew":                        {holders, nil, nil, reader(1).Renew(scripttest.LongLease)},
		"release, one who writes next": {holders, []scripttest.RWWait{w}, nil, reader(1).Release()},
		"release to those who read":    {0, nil, []script.Call{w.Try()}, w.Release()},
		"claim, and more come along":   {0, nil, []script.Call{w.Try(), w.Release()}, reader(5000).Claim()},
		"poll":                         {holders, []scripttest.RWWait{w}, nil, scripttest.RWPollAs("c1")},
		"poll, waits were taken out":   {holders, []scripttest.RWWait{w}, nil, scripttest.RWPollAs("c1", scripttest.ListedReaders(64)...)},
		"poll, waits are reserved":     {0, nil, []script.Call{w.Try(), w.Release()}, scripttest.RWPollAs("c1", scripttest.ListedReaders(64)...)},
		"cancel":                       {holders, []scripttest.RWWait{w}, nil, w.Cancel(1)},
		"many have ended":              {-holders, nil, nil, reader(5000).Try()},
	}
	for name, step := range steps {
		var took []time.Duration
		for range rounds {
			b.Do("FLUSHALL")
			b.Show(map[string]scripttest.Beat{"c1": {Age: 0, Counted: 0}, "c5": {Age: 0, Counted: 0}})
			b.Holders(step.holders)
			for _, script := range step.before {
				b.Ask(script)
				if len(b.Waits()) == 0 {
					b.Crowd(scripttest.ReadersFrom(5000, holders)...)
				}
			}
			if len(step.line) > 0 {
				b.Crowd(append(step.line, scripttest.ReadersFrom(6000, holders)...)...)
			}
			b.Do("SLOWLOG", "RESET")
			step.script.Key = b.Key
			r := step.script.ByDigest()
			b.Do(r.Cmd, r.Args...)
			took = append(took, b.LastScript())
		}
		slices.Sort(took)
		t.Logf("%-30s %v at least, %v at the median, %v at most", name, took[0], took[rounds/2], took[rounds-1])
		require.Less(t, took[0], limit, name)
	}
}
