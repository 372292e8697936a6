package lua_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/scripttest"
)

// A copy that comes when its time is over changes nothing, but for an expiry
// that it may lengthen where the hold is still the same.
func TestLateCopiesOfScripts(t *testing.T) {
	s := redistest.Shared(t)
	for _, tt := range []struct {
		name   string
		state  []script.Call
		late   script.Call
		answer int64
		longer bool // the expiry becomes scripttest.LongLease
	}{
		{"acquire, held", scripttest.PlainHeld, scripttest.AcquireOf(scripttest.Plain1, "", scripttest.LongLease), script.Ours, true},
		{"acquire shorter, held", scripttest.PlainHeld, scripttest.AcquireOf(scripttest.Plain1, "", time.Second), script.Ours, false},
		{"acquire, our next hold", scripttest.PlainNext, scripttest.AcquireOf(scripttest.Plain1, "", scripttest.LongLease), script.Other, false},
		{"acquire, another's hold", scripttest.PlainTook, scripttest.AcquireOf(scripttest.Plain1, "", scripttest.LongLease), script.Other, false},
		{"acquire, kept", scripttest.PlainKept, scripttest.AcquireOf(scripttest.Plain1, "", scripttest.LongLease), script.Other, false},
		{"acquire with earlier value, our next hold", scripttest.PlainNext, scripttest.AcquireOf(scripttest.Plain3, scripttest.Plain1, scripttest.LongLease), script.Other, false},
		{"acquire with earlier value, another's hold", scripttest.PlainTook, scripttest.AcquireOf(scripttest.Plain2, scripttest.Plain1, scripttest.LongLease), script.Other, false},
		{"acquire with earlier value, that is kept", scripttest.PlainKept, scripttest.AcquireOf(scripttest.Plain2, scripttest.Plain1, scripttest.LongLease), script.Other, false},
		{"acquire with earlier value, held", scripttest.PlainHeld, scripttest.AcquireOf(scripttest.Plain1, scripttest.Plain2, scripttest.LongLease), script.Ours, true},

		{"transfer, done", heldGiven, scripttest.TransferOf(scripttest.Hold1, scripttest.Hold2, scripttest.LongLease), script.Ours, true},
		{"transfer shorter, done", heldGiven, scripttest.TransferOf(scripttest.Hold1, scripttest.Hold2, time.Second), script.Ours, false},
		{"transfer, done and a second level", heldGiven2, scripttest.TransferOf(scripttest.Hold1, scripttest.Hold2, scripttest.LongLease), script.Ours, true},
		{"transfer, released", scripttest.NoKey, scripttest.TransferOf(scripttest.Hold1, scripttest.Hold2, scripttest.LongLease), script.Other, false},
		{"transfer, our next hold", scripttest.HeldNext, scripttest.TransferOf(scripttest.Hold1, "h9", scripttest.LongLease), script.Other, false},
		{"transfer, another's hold", scripttest.HeldOther, scripttest.TransferOf(scripttest.Hold1, scripttest.Hold2, scripttest.LongLease), script.Other, false},
		{"transfer, kept", scripttest.HeldKept, scripttest.TransferOf(scripttest.Hold1, scripttest.Hold2, scripttest.LongLease), script.Other, false},
		{"transfer, given on", heldGivenOn, scripttest.TransferOf(scripttest.Hold1, scripttest.Hold2, scripttest.LongLease), script.Other, false},
		{"reentrant acquire, transferred", heldGiven, scripttest.ReentrantAcquireOf(scripttest.OwnerUs, scripttest.Hold1, scripttest.LongLease), script.Other, false},
		{"enter, transferred", heldGiven, scripttest.EnterOf(scripttest.Hold1, 2, 2, scripttest.LongLease), script.Other, false},
		{"reentrant renew, transferred", heldGiven, scripttest.ReentrantRenewOf(scripttest.Hold1, scripttest.LongLease), script.Other, false},
		{"inner release, transferred", heldGiven, scripttest.ReentrantReleaseOf(scripttest.Hold1, 1, 5, 0), script.Other, false},
		{"reentrant release, transferred", heldGiven, scripttest.ReentrantReleaseOf(scripttest.Hold1, 0, 5, 0), script.Other, false},
		{"release of either, given on", heldGivenOn, scripttest.ReleaseOfEither(scripttest.Hold1, scripttest.Hold2), script.Other, false},
		{"release of either, another's hold", scripttest.HeldOther, scripttest.ReleaseOfEither(scripttest.Hold1, scripttest.Hold2), script.Other, false},

		{"renew, held", scripttest.PlainHeld, scripttest.RenewOf(scripttest.Plain1, scripttest.LongLease), script.Ours, true},
		{"renew shorter, held", scripttest.PlainHeld, scripttest.RenewOf(scripttest.Plain1, time.Second), script.Ours, false},
		{"renew, released", scripttest.NoKey, scripttest.RenewOf(scripttest.Plain1, scripttest.LongLease), script.Other, false},
		{"renew, our next hold", scripttest.PlainNext, scripttest.RenewOf(scripttest.Plain1, scripttest.LongLease), script.Other, false},
		{"renew, another's hold", scripttest.PlainTook, scripttest.RenewOf(scripttest.Plain1, scripttest.LongLease), script.Other, false},
		{"renew, kept", scripttest.PlainKept, scripttest.RenewOf(scripttest.Plain1, scripttest.LongLease), script.Other, false},

		{"release, released", scripttest.NoKey, scripttest.ReleaseOf(scripttest.Plain1, 0), script.Other, false},
		{"release, our next hold", scripttest.PlainNext, scripttest.ReleaseOf(scripttest.Plain1, 0), script.Other, false},
		{"release, another's hold", scripttest.PlainTook, scripttest.ReleaseOf(scripttest.Plain1, 0), script.Other, false},
		{"release and keep, released", scripttest.NoKey, scripttest.ReleaseOf(scripttest.Plain1, scripttest.LongLease), script.Other, false},
		{"release and keep, our next hold", scripttest.PlainNext, scripttest.ReleaseOf(scripttest.Plain1, time.Second), script.Other, false},
		{"release and keep, another's hold", scripttest.PlainTook, scripttest.ReleaseOf(scripttest.Plain1, time.Second), script.Other, false},
		{"release and keep, kept", scripttest.PlainKept, scripttest.ReleaseOf(scripttest.Plain1, time.Second), script.Kept, false},
		{"release and keep longer, kept", scripttest.PlainKept, scripttest.ReleaseOf(scripttest.Plain1, scripttest.LongLease), script.Kept, false},

		{"reentrant acquire, held", scripttest.HeldOnce, scripttest.ReentrantAcquireOf(scripttest.OwnerUs, scripttest.Hold1, scripttest.LongLease), script.Ours, true},
		{"reentrant acquire shorter, held", scripttest.HeldOnce, scripttest.ReentrantAcquireOf(scripttest.OwnerUs, scripttest.Hold1, time.Second), script.Ours, false},
		{"reentrant acquire, two levels", scripttest.HeldTwice, scripttest.ReentrantAcquireOf(scripttest.OwnerUs, scripttest.Hold1, scripttest.LongLease), script.Ours, true},
		{"reentrant acquire, our next hold", scripttest.HeldNext, scripttest.ReentrantAcquireOf(scripttest.OwnerUs, scripttest.Hold1, scripttest.LongLease), script.Other, false},
		{"reentrant acquire, our next hold of two levels", scripttest.HeldNext2, scripttest.ReentrantAcquireOf(scripttest.OwnerUs, scripttest.Hold1, scripttest.LongLease), script.Other, false},
		{"reentrant acquire, another's hold", scripttest.HeldOther, scripttest.ReentrantAcquireOf(scripttest.OwnerUs, scripttest.Hold1, scripttest.LongLease), script.Other, false},
		{"reentrant acquire, kept", scripttest.HeldKept, scripttest.ReentrantAcquireOf(scripttest.OwnerUs, scripttest.Hold1, scripttest.LongLease), script.Other, false},

		{"enter, done", scripttest.HeldTwice, scripttest.EnterOf(scripttest.Hold1, 2, 2, scripttest.LongLease), script.Ours, true},
		{"enter shorter, done", scripttest.HeldTwice, scripttest.EnterOf(scripttest.Hold1, 2, 2, time.Second), script.Ours, false},
		{"enter, left again", scripttest.HeldBack, scripttest.EnterOf(scripttest.Hold1, 2, 2, scripttest.LongLease), script.Ours, false},
		{"enter, done and a third level", scripttest.HeldThree, scripttest.EnterOf(scripttest.Hold1, 2, 2, scripttest.LongLease), script.Ours, false},
		{"enter, released", scripttest.NoKey, scripttest.EnterOf(scripttest.Hold1, 2, 2, scripttest.LongLease), script.Other, false},
		{"enter, our next hold", scripttest.HeldNext, scripttest.EnterOf(scripttest.Hold1, 2, 2, scripttest.LongLease), script.Other, false},
		{"enter with a high number, our next hold", scripttest.HeldNext, scripttest.EnterOf(scripttest.Hold1, 2, 99, scripttest.LongLease), script.Other, false},
		{"enter, another's hold", scripttest.HeldOther, scripttest.EnterOf(scripttest.Hold1, 2, 2, scripttest.LongLease), script.Other, false},
		{"enter, kept", scripttest.HeldKept, scripttest.EnterOf(scripttest.Hold1, 2, 3, scripttest.LongLease), script.Other, false},

		{"reentrant renew, held", scripttest.HeldTwice, scripttest.ReentrantRenewOf(scripttest.Hold1, scripttest.LongLease), script.Ours, true},
		{"reentrant renew shorter, held", scripttest.HeldTwice, scripttest.ReentrantRenewOf(scripttest.Hold1, time.Second), script.Ours, false},
		{"reentrant renew, released", scripttest.NoKey, scripttest.ReentrantRenewOf(scripttest.Hold1, scripttest.LongLease), script.Other, false},
		{"reentrant renew, our next hold", scripttest.HeldNext, scripttest.ReentrantRenewOf(scripttest.Hold1, scripttest.LongLease), script.Other, false},
		{"reentrant renew, another's hold", scripttest.HeldOther, scripttest.ReentrantRenewOf(scripttest.Hold1, scripttest.LongLease), script.Other, false},
		{"reentrant renew, kept", scripttest.HeldKept, scripttest.ReentrantRenewOf(scripttest.Hold1, scripttest.LongLease), script.Other, false},

		{"inner release, done", scripttest.HeldBack, scripttest.ReentrantReleaseOf(scripttest.Hold1, 1, 3, 0), script.Ours, false},
		{"inner release, entered again", scripttest.HeldAgain, scripttest.ReentrantReleaseOf(scripttest.Hold1, 1, 3, 0), script.Ours, false},
		{"inner release, released", scripttest.NoKey, scripttest.ReentrantReleaseOf(scripttest.Hold1, 1, 3, 0), script.Other, false},
		{"inner release, our next hold of two levels", scripttest.HeldNext2, scripttest.ReentrantReleaseOf(scripttest.Hold1, 1, 99, 0), script.Other, false},
		{"inner release, another's hold", scripttest.HeldOther, scripttest.ReentrantReleaseOf(scripttest.Hold1, 1, 3, 0), script.Other, false},
		{"inner release, kept", scripttest.HeldKept, scripttest.ReentrantReleaseOf(scripttest.Hold1, 1, 3, 0), script.Kept, false},
		{"last release, released", scripttest.NoKey, scripttest.ReentrantReleaseOf(scripttest.Hold1, 0, 2, 0), script.Other, false},
		{"last release, our next hold", scripttest.HeldNext, scripttest.ReentrantReleaseOf(scripttest.Hold1, 0, 2, 0), script.Other, false},
		{"last release, our next hold of two levels", scripttest.HeldNext2, scripttest.ReentrantReleaseOf(scripttest.Hold1, 0, 99, 0), script.Other, false},
		{"last release, another's hold", scripttest.HeldOther, scripttest.ReentrantReleaseOf(scripttest.Hold1, 0, 2, 0), script.Other, false},
		{"last release and keep, our next hold", scripttest.HeldNext, scripttest.ReentrantReleaseOf(scripttest.Hold1, 0, 2, time.Second), script.Other, false},
		{"last release and keep, another's hold", scripttest.HeldOther, scripttest.ReentrantReleaseOf(scripttest.Hold1, 0, 2, time.Second), script.Other, false},
		{"last release and keep, kept", scripttest.HeldKept, scripttest.ReentrantReleaseOf(scripttest.Hold1, 0, 2, time.Second), script.Kept, false},
		{"last release and keep longer, kept", scripttest.HeldKept, scripttest.ReentrantReleaseOf(scripttest.Hold1, 0, 2, scripttest.LongLease), script.Kept, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := scripttest.NewBench(t, s)
			b.SetUp(tt.state)
			want := b.State()
			if tt.longer {
				want.TTL = scripttest.LongLease
			}
			for range 2 {
				require.Equal(t, tt.answer, b.Run(tt.late))
				scripttest.RequireSame(t, want, b.State())
			}
		})
	}
}

// A copy that finds its work done, and a longer lease than it asks for, writes
// all the same: a WAIT that follows it asks the replicas for what was written
// over its connection.
func TestLateCopiesWrite(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	written := func() int64 { return scripttest.InfoField(t, s, "persistence", "rdb_changes_since_last_save") }
	for _, tt := range []struct {
		name  string
		state []script.Call
		late  script.Call
	}{
		{"acquire", scripttest.PlainHeld, scripttest.AcquireOf(scripttest.Plain1, "", time.Second)},
		{"reentrant acquire", scripttest.HeldOnce, scripttest.ReentrantAcquireOf(scripttest.OwnerUs, scripttest.Hold1, time.Second)},
		{"enter", scripttest.HeldTwice, scripttest.EnterOf(scripttest.Hold1, 2, 2, time.Second)},
		{"transfer", heldGiven, scripttest.TransferOf(scripttest.Hold1, scripttest.Hold2, time.Second)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := scripttest.NewBench(t, s)
			b.SetUp(tt.state)
			before := written()
			require.Equal(t, int64(script.Ours), b.Run(tt.late))
			require.Greater(t, written(), before)
		})
	}
	t.Run("several keys", func(t *testing.T) {
		b := scripttest.NewMulti(t, s, 2)
		b.Put(scripttest.Plain1, scripttest.Plain1)
		before := written()
		require.Equal(t, []int64{script.Ours}, b.Acquire(scripttest.Plain1, time.Second, 0, ""))
		require.Equal(t, before+2, written())
	})
}

// A script that is sent twice does what it does once.
func TestScriptsSentTwice(t *testing.T) {
	hash := func(hold string, count, seq string) map[string]string {
		fields := map[string]string{"hold": hold, "seq": "#" + seq, "info": "info"}
		if count != "" {
			fields[scripttest.OwnerUs] = count
		}
		return fields
	}
	s := redistest.Shared(t)
	for _, tt := range []struct {
		name    string
		state   []script.Call
		script  script.Call
		answers [2]int64
		want    scripttest.KeyState
	}{
		{"acquire", scripttest.NoKey, scripttest.AcquireOf(scripttest.Plain1, "", scripttest.LongLease), [2]int64{1, 1}, scripttest.KeyState{Content: scripttest.Plain1, TTL: scripttest.LongLease}},
		{"acquire with earlier value", scripttest.PlainHeld, scripttest.AcquireOf(scripttest.Plain2, scripttest.Plain1, scripttest.LongLease), [2]int64{1, 1}, scripttest.KeyState{Content: scripttest.Plain2, TTL: scripttest.LongLease}},
		{"renew", scripttest.PlainHeld, scripttest.RenewOf(scripttest.Plain1, scripttest.LongLease), [2]int64{1, 1}, scripttest.KeyState{Content: scripttest.Plain1, TTL: scripttest.LongLease}},
		{"release", scripttest.PlainHeld, scripttest.ReleaseOf(scripttest.Plain1, 0), [2]int64{1, 0}, scripttest.KeyState{Content: nil, TTL: -2}},
		{"release and keep", scripttest.PlainHeld, scripttest.ReleaseOf(scripttest.Plain1, scripttest.Keep), [2]int64{1, 2}, scripttest.KeyState{Content: lockspec.KeptValue(scripttest.Plain1), TTL: scripttest.Keep}},
		{"release, kept until now", scripttest.PlainKept, scripttest.ReleaseOf(scripttest.Plain1, 0), [2]int64{2, 0}, scripttest.KeyState{Content: nil, TTL: -2}},
		{"reentrant acquire", scripttest.NoKey, scripttest.ReentrantAcquireOf(scripttest.OwnerUs, scripttest.Hold1, scripttest.LongLease), [2]int64{1, 1}, scripttest.KeyState{Content: hash(scripttest.Hold1, "1", "1"), TTL: scripttest.LongLease}},
		{"enter", scripttest.HeldOnce, scripttest.EnterOf(scripttest.Hold1, 2, 2, scripttest.LongLease), [2]int64{1, 1}, scripttest.KeyState{Content: hash(scripttest.Hold1, "2", "2"), TTL: scripttest.LongLease}},
		{"enter, third level", scripttest.HeldTwice, scripttest.EnterOf(scripttest.Hold1, 3, 3, scripttest.LongLease), [2]int64{1, 1}, scripttest.KeyState{Content: hash(scripttest.Hold1, "3", "3"), TTL: scripttest.LongLease}},
		{"reentrant renew", scripttest.HeldTwice, scripttest.ReentrantRenewOf(scripttest.Hold1, scripttest.LongLease), [2]int64{1, 1}, scripttest.KeyState{Content: hash(scripttest.Hold1, "2", "2"), TTL: scripttest.LongLease}},
		{"inner release", scripttest.HeldTwice, scripttest.ReentrantReleaseOf(scripttest.Hold1, 1, 3, 0), [2]int64{1, 1}, scripttest.KeyState{Content: hash(scripttest.Hold1, "1", "3"), TTL: scripttest.Lease}},
		{"last release", scripttest.HeldOnce, scripttest.ReentrantReleaseOf(scripttest.Hold1, 0, 2, 0), [2]int64{1, 0}, scripttest.KeyState{Content: nil, TTL: -2}},
		{"last release overtakes the inner one", scripttest.HeldTwice, scripttest.ReentrantReleaseOf(scripttest.Hold1, 0, 4, 0), [2]int64{1, 0}, scripttest.KeyState{Content: nil, TTL: -2}},
		{"last release and keep", scripttest.HeldOnce, scripttest.ReentrantReleaseOf(scripttest.Hold1, 0, 2, scripttest.Keep), [2]int64{1, 2}, scripttest.KeyState{Content: hash("kept:"+scripttest.Hold1, "", "1"), TTL: scripttest.Keep}},
		{"last release, kept until now", scripttest.HeldKept, scripttest.ReentrantReleaseOf(scripttest.Hold1, 0, 2, 0), [2]int64{2, 0}, scripttest.KeyState{Content: nil, TTL: -2}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := scripttest.NewBench(t, s)
			b.SetUp(tt.state)
			for _, answer := range tt.answers {
				require.Equal(t, answer, b.Run(tt.script))
				scripttest.RequireSame(t, tt.want, b.State())
			}
		})
	}
}

// Numbers beyond 9 are not compared as text.
func TestChangesAreNumbered(t *testing.T) {
	b := scripttest.NewBench(t, redistest.Shared(t))
	b.SetUp(scripttest.HeldTwice)
	for seq := 3; seq <= 200; seq++ {
		require.Equal(t, int64(script.Ours), b.Run(scripttest.EnterOf(scripttest.Hold1, seq, seq, scripttest.Lease)))
		require.Equal(t, int64(script.Ours), b.Run(scripttest.EnterOf(scripttest.Hold1, 2, seq-1, scripttest.Lease)), "the change before")
		require.Equal(t, int64(script.Ours), b.Run(scripttest.ReentrantReleaseOf(scripttest.Hold1, 1, seq-1, 0)), "the change before")
		require.Equal(t, fmt.Sprint(seq), b.State().Content.(map[string]string)[scripttest.OwnerUs])
	}
}
