package relock

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
)

// A copy that comes when its time is over changes nothing, but for an expiry that it may lengthen where the hold is still the same.
func TestLateCopiesOfScripts(t *testing.T) {
	s := redistest.Shared(t)
	for _, tt := range []struct {
		name   string
		state  []scripted
		late   scripted
		answer int64
		longer bool // the expiry becomes longLease
	}{
		{"acquire, held", plainHeld, acquireOf(plain1, "", longLease), answerOurs, true},
		{"acquire shorter, held", plainHeld, acquireOf(plain1, "", time.Second), answerOurs, false},
		{"acquire, our next hold", plainNext, acquireOf(plain1, "", longLease), answerOther, false},
		{"acquire, another's hold", plainTook, acquireOf(plain1, "", longLease), answerOther, false},
		{"acquire, kept", plainKept, acquireOf(plain1, "", longLease), answerOther, false},
		{"acquire with earlier value, our next hold", plainNext, acquireOf(plain3, plain1, longLease), answerOther, false},
		{"acquire with earlier value, another's hold", plainTook, acquireOf(plain2, plain1, longLease), answerOther, false},
		{"acquire with earlier value, that is kept", plainKept, acquireOf(plain2, plain1, longLease), answerOther, false},
		{"acquire with earlier value, held", plainHeld, acquireOf(plain1, plain2, longLease), answerOurs, true},

		{"transfer, done", heldGiven, transferOf(hold1, hold2, longLease), answerOurs, true},
		{"transfer shorter, done", heldGiven, transferOf(hold1, hold2, time.Second), answerOurs, false},
		{"transfer, done and a second level", heldGiven2, transferOf(hold1, hold2, longLease), answerOurs, true},
		{"transfer, released", noKey, transferOf(hold1, hold2, longLease), answerOther, false},
		{"transfer, our next hold", heldNext, transferOf(hold1, "h9", longLease), answerOther, false},
		{"transfer, another's hold", heldOther, transferOf(hold1, hold2, longLease), answerOther, false},
		{"transfer, kept", heldKept, transferOf(hold1, hold2, longLease), answerOther, false},
		{"transfer, given on", heldGivenOn, transferOf(hold1, hold2, longLease), answerOther, false},
		{"reentrant acquire, transferred", heldGiven, reentrantAcquireOf(ownerUs, hold1, longLease), answerOther, false},
		{"enter, transferred", heldGiven, enterOf(hold1, 2, 2, longLease), answerOther, false},
		{"reentrant renew, transferred", heldGiven, reentrantRenewOf(hold1, longLease), answerOther, false},
		{"inner release, transferred", heldGiven, reentrantReleaseOf(hold1, 1, 5, 0), answerOther, false},
		{"reentrant release, transferred", heldGiven, reentrantReleaseOf(hold1, 0, 5, 0), answerOther, false},
		{"release of either, given on", heldGivenOn, releaseOfEither(hold1, hold2), answerOther, false},
		{"release of either, another's hold", heldOther, releaseOfEither(hold1, hold2), answerOther, false},

		{"renew, held", plainHeld, renewOf(plain1, longLease), answerOurs, true},
		{"renew shorter, held", plainHeld, renewOf(plain1, time.Second), answerOurs, false},
		{"renew, released", noKey, renewOf(plain1, longLease), answerOther, false},
		{"renew, our next hold", plainNext, renewOf(plain1, longLease), answerOther, false},
		{"renew, another's hold", plainTook, renewOf(plain1, longLease), answerOther, false},
		{"renew, kept", plainKept, renewOf(plain1, longLease), answerOther, false},

		{"release, released", noKey, releaseOf(plain1, 0), answerOther, false},
		{"release, our next hold", plainNext, releaseOf(plain1, 0), answerOther, false},
		{"release, another's hold", plainTook, releaseOf(plain1, 0), answerOther, false},
		{"release and keep, released", noKey, releaseOf(plain1, longLease), answerOther, false},
		{"release and keep, our next hold", plainNext, releaseOf(plain1, time.Second), answerOther, false},
		{"release and keep, another's hold", plainTook, releaseOf(plain1, time.Second), answerOther, false},
		{"release and keep, kept", plainKept, releaseOf(plain1, time.Second), answerKept, false},
		{"release and keep longer, kept", plainKept, releaseOf(plain1, longLease), answerKept, false},

		{"reentrant acquire, held", heldOnce, reentrantAcquireOf(ownerUs, hold1, longLease), answerOurs, true},
		{"reentrant acquire shorter, held", heldOnce, reentrantAcquireOf(ownerUs, hold1, time.Second), answerOurs, false},
		{"reentrant acquire, two levels", heldTwice, reentrantAcquireOf(ownerUs, hold1, longLease), answerOurs, true},
		{"reentrant acquire, our next hold", heldNext, reentrantAcquireOf(ownerUs, hold1, longLease), answerOther, false},
		{"reentrant acquire, our next hold of two levels", heldNext2, reentrantAcquireOf(ownerUs, hold1, longLease), answerOther, false},
		{"reentrant acquire, another's hold", heldOther, reentrantAcquireOf(ownerUs, hold1, longLease), answerOther, false},
		{"reentrant acquire, kept", heldKept, reentrantAcquireOf(ownerUs, hold1, longLease), answerOther, false},

		{"enter, done", heldTwice, enterOf(hold1, 2, 2, longLease), answerOurs, true},
		{"enter shorter, done", heldTwice, enterOf(hold1, 2, 2, time.Second), answerOurs, false},
		{"enter, left again", heldBack, enterOf(hold1, 2, 2, longLease), answerOurs, false},
		{"enter, done and a third level", heldThree, enterOf(hold1, 2, 2, longLease), answerOurs, false},
		{"enter, released", noKey, enterOf(hold1, 2, 2, longLease), answerOther, false},
		{"enter, our next hold", heldNext, enterOf(hold1, 2, 2, longLease), answerOther, false},
		{"enter with a high number, our next hold", heldNext, enterOf(hold1, 2, 99, longLease), answerOther, false},
		{"enter, another's hold", heldOther, enterOf(hold1, 2, 2, longLease), answerOther, false},
		{"enter, kept", heldKept, enterOf(hold1, 2, 3, longLease), answerOther, false},

		{"reentrant renew, held", heldTwice, reentrantRenewOf(hold1, longLease), answerOurs, true},
		{"reentrant renew shorter, held", heldTwice, reentrantRenewOf(hold1, time.Second), answerOurs, false},
		{"reentrant renew, released", noKey, reentrantRenewOf(hold1, longLease), answerOther, false},
		{"reentrant renew, our next hold", heldNext, reentrantRenewOf(hold1, longLease), answerOther, false},
		{"reentrant renew, another's hold", heldOther, reentrantRenewOf(hold1, longLease), answerOther, false},
		{"reentrant renew, kept", heldKept, reentrantRenewOf(hold1, longLease), answerOther, false},

		{"inner release, done", heldBack, reentrantReleaseOf(hold1, 1, 3, 0), answerOurs, false},
		{"inner release, entered again", heldAgain, reentrantReleaseOf(hold1, 1, 3, 0), answerOurs, false},
		{"inner release, released", noKey, reentrantReleaseOf(hold1, 1, 3, 0), answerOther, false},
		{"inner release, our next hold of two levels", heldNext2, reentrantReleaseOf(hold1, 1, 99, 0), answerOther, false},
		{"inner release, another's hold", heldOther, reentrantReleaseOf(hold1, 1, 3, 0), answerOther, false},
		{"inner release, kept", heldKept, reentrantReleaseOf(hold1, 1, 3, 0), answerKept, false},
		{"last release, released", noKey, reentrantReleaseOf(hold1, 0, 2, 0), answerOther, false},
		{"last release, our next hold", heldNext, reentrantReleaseOf(hold1, 0, 2, 0), answerOther, false},
		{"last release, our next hold of two levels", heldNext2, reentrantReleaseOf(hold1, 0, 99, 0), answerOther, false},
		{"last release, another's hold", heldOther, reentrantReleaseOf(hold1, 0, 2, 0), answerOther, false},
		{"last release and keep, our next hold", heldNext, reentrantReleaseOf(hold1, 0, 2, time.Second), answerOther, false},
		{"last release and keep, another's hold", heldOther, reentrantReleaseOf(hold1, 0, 2, time.Second), answerOther, false},
		{"last release and keep, kept", heldKept, reentrantReleaseOf(hold1, 0, 2, time.Second), answerKept, false},
		{"last release and keep longer, kept", heldKept, reentrantReleaseOf(hold1, 0, 2, longLease), answerKept, false},
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
		state []scripted
		late  scripted
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
			require.Equal(t, int64(answerOurs), b.run(tt.late))
			require.Greater(t, written(), before)
		})
	}
	t.Run("several keys", func(t *testing.T) {
		b := newMultiScripts(t, s, 2)
		b.put(plain1, plain1)
		before := written()
		require.Equal(t, []int64{answerOurs}, b.acquire(plain1, time.Second, 0, ""))
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
		state   []scripted
		script  scripted
		answers [2]int64
		want    keyState
	}{
		{"acquire", noKey, acquireOf(plain1, "", longLease), [2]int64{1, 1}, keyState{plain1, longLease}},
		{"acquire with earlier value", plainHeld, acquireOf(plain2, plain1, longLease), [2]int64{1, 1}, keyState{plain2, longLease}},
		{"renew", plainHeld, renewOf(plain1, longLease), [2]int64{1, 1}, keyState{plain1, longLease}},
		{"release", plainHeld, releaseOf(plain1, 0), [2]int64{1, 0}, keyState{nil, -2}},
		{"release and keep", plainHeld, releaseOf(plain1, scriptKeep), [2]int64{1, 2}, keyState{keptValue(plain1), scriptKeep}},
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
		require.Equal(t, int64(answerOurs), b.run(enterOf(hold1, seq, seq, scriptLease)))
		require.Equal(t, int64(answerOurs), b.run(enterOf(hold1, 2, seq-1, scriptLease)), "the change before")
		require.Equal(t, int64(answerOurs), b.run(reentrantReleaseOf(hold1, 1, seq-1, 0)), "the change before")
		require.Equal(t, fmt.Sprint(seq), b.state().content.(map[string]string)[ownerUs])
	}
}
