package relock

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
)

// A copy that comes when its time is over changes nothing, but for an expiry that it may lengthen where the hold is still the same.
func TestLateCopiesOfScripts(t *testing.T) {
	s := redistest.Shared(t)
	for _, tt := range []struct {
		name   string
		state  []script.Call
		late   script.Call
		answer int64
		longer bool // the expiry becomes longLease
	}{
		{"acquire, held", plainHeld, acquireOf(plain1, "", longLease), script.Ours, true},
		{"acquire shorter, held", plainHeld, acquireOf(plain1, "", time.Second), script.Ours, false},
		{"acquire, our next hold", plainNext, acquireOf(plain1, "", longLease), script.Other, false},
		{"acquire, another's hold", plainTook, acquireOf(plain1, "", longLease), script.Other, false},
		{"acquire, kept", plainKept, acquireOf(plain1, "", longLease), script.Other, false},
		{"acquire with earlier value, our next hold", plainNext, acquireOf(plain3, plain1, longLease), script.Other, false},
		{"acquire with earlier value, another's hold", plainTook, acquireOf(plain2, plain1, longLease), script.Other, false},
		{"acquire with earlier value, that is kept", plainKept, acquireOf(plain2, plain1, longLease), script.Other, false},
		{"acquire with earlier value, held", plainHeld, acquireOf(plain1, plain2, longLease), script.Ours, true},

		{"transfer, done", heldGiven, transferOf(hold1, hold2, longLease), script.Ours, true},
		{"transfer shorter, done", heldGiven, transferOf(hold1, hold2, time.Second), script.Ours, false},
		{"transfer, done and a second level", heldGiven2, transferOf(hold1, hold2, longLease), script.Ours, true},
		{"transfer, released", noKey, transferOf(hold1, hold2, longLease), script.Other, false},
		{"transfer, our next hold", heldNext, transferOf(hold1, "h9", longLease), script.Other, false},
		{"transfer, another's hold", heldOther, transferOf(hold1, hold2, longLease), script.Other, false},
		{"transfer, kept", heldKept, transferOf(hold1, hold2, longLease), script.Other, false},
		{"transfer, given on", heldGivenOn, transferOf(hold1, hold2, longLease), script.Other, false},
		{"reentrant acquire, transferred", heldGiven, reentrantAcquireOf(ownerUs, hold1, longLease), script.Other, false},
		{"enter, transferred", heldGiven, enterOf(hold1, 2, 2, longLease), script.Other, false},
		{"reentrant renew, transferred", heldGiven, reentrantRenewOf(hold1, longLease), script.Other, false},
		{"inner release, transferred", heldGiven, reentrantReleaseOf(hold1, 1, 5, 0), script.Other, false},
		{"reentrant release, transferred", heldGiven, reentrantReleaseOf(hold1, 0, 5, 0), script.Other, false},
		{"release of either, given on", heldGivenOn, releaseOfEither(hold1, hold2), script.Other, false},
		{"release of either, another's hold", heldOther, releaseOfEither(hold1, hold2), script.Other, false},

		{"renew, held", plainHeld, renewOf(plain1, longLease), script.Ours, true},
		{"renew shorter, held", plainHeld, renewOf(plain1, time.Second), script.Ours, false},
		{"renew, released", noKey, renewOf(plain1, longLease), script.Other, false},
		{"renew, our next hold", plainNext, renewOf(plain1, longLease), script.Other, false},
		{"renew, another's hold", plainTook, renewOf(plain1, longLease), script.Other, false},
		{"renew, kept", plainKept, renewOf(plain1, longLease), script.Other, false},

		{"release, released", noKey, releaseOf(plain1, 0), script.Other, false},
		{"release, our next hold", plainNext, releaseOf(plain1, 0), script.Other, false},
		{"release, another's hold", plainTook, releaseOf(plain1, 0), script.Other, false},
		{"release and keep, released", noKey, releaseOf(plain1, longLease), script.Other, false},
		{"release and keep, our next hold", plainNext, releaseOf(plain1, time.Second), script.Other, false},
		{"release and keep, another's hold", plainTook, releaseOf(plain1, time.Second), script.Other, false},
		{"release and keep, kept", plainKept, releaseOf(plain1, time.Second), script.Kept, false},
		{"release and keep longer, kept", plainKept, releaseOf(plain1, longLease), script.Kept, false},

		{"reentrant acquire, held", heldOnce, reentrantAcquireOf(ownerUs, hold1, longLease), script.Ours, true},
		{"reentrant acquire shorter, held", heldOnce, reentrantAcquireOf(ownerUs, hold1, time.Second), script.Ours, false},
		{"reentrant acquire, two levels", heldTwice, reentrantAcquireOf(ownerUs, hold1, longLease), script.Ours, true},
		{"reentrant acquire, our next hold", heldNext, reentrantAcquireOf(ownerUs, hold1, longLease), script.Other, false},
		{"reentrant acquire, our next hold of two levels", heldNext2, reentrantAcquireOf(ownerUs, hold1, longLease), script.Other, false},
		{"reentrant acquire, another's hold", heldOther, reentrantAcquireOf(ownerUs, hold1, longLease), script.Other, false},
		{"reentrant acquire, kept", heldKept, reentrantAcquireOf(ownerUs, hold1, longLease), script.Other, false},

		{"enter, done", heldTwice, enterOf(hold1, 2, 2, longLease), script.Ours, true},
		{"enter shorter, done", heldTwice, enterOf(hold1, 2, 2, time.Second), script.Ours, false},
		{"enter, left again", heldBack, enterOf(hold1, 2, 2, longLease), script.Ours, false},
		{"enter, done and a third level", heldThree, enterOf(hold1, 2, 2, longLease), script.Ours, false},
		{"enter, released", noKey, enterOf(hold1, 2, 2, longLease), script.Other, false},
		{"enter, our next hold", heldNext, enterOf(hold1, 2, 2, longLease), script.Other, false},
		{"enter with a high number, our next hold", heldNext, enterOf(hold1, 2, 99, longLease), script.Other, false},
		{"enter, another's hold", heldOther, enterOf(hold1, 2, 2, longLease), script.Other, false},
		{"enter, kept", heldKept, enterOf(hold1, 2, 3, longLease), script.Other, false},

		{"reentrant renew, held", heldTwice, reentrantRenewOf(hold1, longLease), script.Ours, true},
		{"reentrant renew shorter, held", heldTwice, reentrantRenewOf(hold1, time.Second), script.Ours, false},
		{"reentrant renew, released", noKey, reentrantRenewOf(hold1, longLease), script.Other, false},
		{"reentrant renew, our next hold", heldNext, reentrantRenewOf(hold1, longLease), script.Other, false},
		{"reentrant renew, another's hold", heldOther, reentrantRenewOf(hold1, longLease), script.Other, false},
		{"reentrant renew, kept", heldKept, reentrantRenewOf(hold1, longLease), script.Other, false},

		{"inner release, done", heldBack, reentrantReleaseOf(hold1, 1, 3, 0), script.Ours, false},
		{"inner release, entered again", heldAgain, reentrantReleaseOf(hold1, 1, 3, 0), script.Ours, false},
		{"inner release, released", noKey, reentrantReleaseOf(hold1, 1, 3, 0), script.Other, false},
		{"inner release, our next hold of two levels", heldNext2, reentrantReleaseOf(hold1, 1, 99, 0), script.Other, false},
		{"inner release, another's hold", heldOther, reentrantReleaseOf(hold1, 1, 3, 0), script.Other, false},
		{"inner release, kept", heldKept, reentrantReleaseOf(hold1, 1, 3, 0), script.Kept, false},
		{"last release, released", noKey, reentrantReleaseOf(hold1, 0, 2, 0), script.Other, false},
		{"last release, our next hold", heldNext, reentrantReleaseOf(hold1, 0, 2, 0), script.Other, false},
		{"last release, our next hold of two levels", heldNext2, reentrantReleaseOf(hold1, 0, 99, 0), script.Other, false},
		{"last release, another's hold", heldOther, reentrantReleaseOf(hold1, 0, 2, 0), script.Other, false},
		{"last release and keep, our next hold", heldNext, reentrantReleaseOf(hold1, 0, 2, time.Second), script.Other, false},
		{"last release and keep, another's hold", heldOther, reentrantReleaseOf(hold1, 0, 2, time.Second), script.Other, false},
		{"last release and keep, kept", heldKept, reentrantReleaseOf(hold1, 0, 2, time.Second), script.Kept, false},
		{"last release and keep longer, kept", heldKept, reentrantReleaseOf(hold1, 0, 2, longLease), script.Kept, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newScriptBench(t, s)
			b.setUp(tt.state)
			want := b.state()
			if tt.longer {
				want.ttl = longLease
			}
			for range 2 {
				require.Equal(t, tt.answer, b.run(tt.late))
				requireSame(t, want, b.state())
			}
		})
	}
}

// A copy that finds its work done, and a longer lease than it asks for, writes all the same: a WAIT that follows it asks the
// replicas for what was written over its connection.
func TestLateCopiesWrite(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	written := func() int64 { return infoField(t, s, "persistence", "rdb_changes_since_last_save") }
	for _, tt := range []struct {
		name  string
		state []script.Call
		late  script.Call
	}{
		{"acquire", plainHeld, acquireOf(plain1, "", time.Second)},
		{"reentrant acquire", heldOnce, reentrantAcquireOf(ownerUs, hold1, time.Second)},
		{"enter", heldTwice, enterOf(hold1, 2, 2, time.Second)},
		{"transfer", heldGiven, transferOf(hold1, hold2, time.Second)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newScriptBench(t, s)
			b.setUp(tt.state)
			before := written()
			require.Equal(t, int64(script.Ours), b.run(tt.late))
			require.Greater(t, written(), before)
		})
	}
	t.Run("several keys", func(t *testing.T) {
		b := newMultiScripts(t, s, 2)
		b.put(plain1, plain1)
		before := written()
		require.Equal(t, []int64{script.Ours}, b.acquire(plain1, time.Second, 0, ""))
		require.Equal(t, before+2, written())
	})
}

// A script that is sent twice does what it does once.
func TestScriptsSentTwice(t *testing.T) {
	hash := func(hold string, count, seq string) map[string]string {
		fields := map[string]string{"hold": hold, "seq": "#" + seq, "info": "info"}
		if count != "" {
			fields[ownerUs] = count
		}
		return fields
	}
	s := redistest.Shared(t)
	for _, tt := range []struct {
		name    string
		state   []script.Call
		script  script.Call
		answers [2]int64
		want    keyState
	}{
		{"acquire", noKey, acquireOf(plain1, "", longLease), [2]int64{1, 1}, keyState{plain1, longLease}},
		{"acquire with earlier value", plainHeld, acquireOf(plain2, plain1, longLease), [2]int64{1, 1}, keyState{plain2, longLease}},
		{"renew", plainHeld, renewOf(plain1, longLease), [2]int64{1, 1}, keyState{plain1, longLease}},
		{"release", plainHeld, releaseOf(plain1, 0), [2]int64{1, 0}, keyState{nil, -2}},
		{"release and keep", plainHeld, releaseOf(plain1, scriptKeep), [2]int64{1, 2}, keyState{lockspec.KeptValue(plain1), scriptKeep}},
		{"release, kept until now", plainKept, releaseOf(plain1, 0), [2]int64{2, 0}, keyState{nil, -2}},
		{"reentrant acquire", noKey, reentrantAcquireOf(ownerUs, hold1, longLease), [2]int64{1, 1}, keyState{hash(hold1, "1", "1"), longLease}},
		{"enter", heldOnce, enterOf(hold1, 2, 2, longLease), [2]int64{1, 1}, keyState{hash(hold1, "2", "2"), longLease}},
		{"enter, third level", heldTwice, enterOf(hold1, 3, 3, longLease), [2]int64{1, 1}, keyState{hash(hold1, "3", "3"), longLease}},
		{"reentrant renew", heldTwice, reentrantRenewOf(hold1, longLease), [2]int64{1, 1}, keyState{hash(hold1, "2", "2"), longLease}},
		{"inner release", heldTwice, reentrantReleaseOf(hold1, 1, 3, 0), [2]int64{1, 1}, keyState{hash(hold1, "1", "3"), scriptLease}},
		{"last release", heldOnce, reentrantReleaseOf(hold1, 0, 2, 0), [2]int64{1, 0}, keyState{nil, -2}},
		{"last release overtakes the inner one", heldTwice, reentrantReleaseOf(hold1, 0, 4, 0), [2]int64{1, 0}, keyState{nil, -2}},
		{"last release and keep", heldOnce, reentrantReleaseOf(hold1, 0, 2, scriptKeep), [2]int64{1, 2}, keyState{hash("kept:"+hold1, "", "1"), scriptKeep}},
		{"last release, kept until now", heldKept, reentrantReleaseOf(hold1, 0, 2, 0), [2]int64{2, 0}, keyState{nil, -2}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newScriptBench(t, s)
			b.setUp(tt.state)
			for _, answer := range tt.answers {
				require.Equal(t, answer, b.run(tt.script))
				requireSame(t, tt.want, b.state())
			}
		})
	}
}

// Numbers beyond 9 are not compared as text.
func TestChangesAreNumbered(t *testing.T) {
	b := newScriptBench(t, redistest.Shared(t))
	b.setUp(heldTwice)
	for seq := 3; seq <= 200; seq++ {
		require.Equal(t, int64(script.Ours), b.run(enterOf(hold1, seq, seq, scriptLease)))
		require.Equal(t, int64(script.Ours), b.run(enterOf(hold1, 2, seq-1, scriptLease)), "the change before")
		require.Equal(t, int64(script.Ours), b.run(reentrantReleaseOf(hold1, 1, seq-1, 0)), "the change before")
		require.Equal(t, fmt.Sprint(seq), b.state().content.(map[string]string)[ownerUs])
	}
}
