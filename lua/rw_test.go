package lua_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/scripttest"
)

// One call after another, for each mode: the answer, what the lock becomes, and
// who waits then.
func TestRWScriptAnswers(t *testing.T) {
	s := redistest.Shared(t)
	for _, mode := range []string{"f", "u"} {
		t.Run(mode, func(t *testing.T) {
			x, y, z := scripttest.RWWaitNamed("c1", 1, "s"+mode), scripttest.RWWaitNamed("c2", 1, "s"+mode), scripttest.RWWaitNamed("c3", 1, "s"+mode)
			v, w := scripttest.RWWaitNamed("c4", 1, "w"+mode), scripttest.RWWaitNamed("c5", 1, "w"+mode)
			b := scripttest.NewReadWrite(t, s)
			two := []string{x.Reads(), y.Reads()}
			b.Steps(
				scripttest.Step("claim, free, not queued", x.Claim(), "3", nil, nil),
				scripttest.Step("try, free", x.Try(), "1", []string{x.Reads()}, nil),
				scripttest.Step("try, has it", x.Try(), "1", []string{x.Reads()}, nil),
				scripttest.Step("try, beside another that reads", y.Try(), "1", two, nil),
				scripttest.Step("try, to write", w.Try(), "0", two, nil),
				scripttest.Step("claim, has it", y.Claim(), "1", two, nil),
				scripttest.Step("enqueue, has it", y.Enqueue(), "1", two, nil),
				scripttest.Step("claim, to write, not queued", w.Claim(), "3", two, nil),
				scripttest.Step("enqueue, to write", w.Enqueue(), "0", two, []scripttest.RWWait{w}),
				scripttest.Step("claim, to write", w.Claim(), "0", two, []scripttest.RWWait{w}),
				scripttest.Step("cancel without the hold", x.Cancel(0), "1", two, []scripttest.RWWait{w}),
				scripttest.Step("cancel with the hold", x.Cancel(1), "1", []string{y.Reads()}, []scripttest.RWWait{w}),
				scripttest.Step("cancel for nobody", scripttest.RWNobody.Cancel(0), "1", []string{y.Reads()}, []scripttest.RWWait{w}),
				scripttest.Step("release, not held", x.Release(), "0", []string{y.Reads()}, []scripttest.RWWait{w}),
			)
			b.Stand(time.Minute, w) // it has waited for long
			b.Steps(
				scripttest.Step("try, one who writes waits", x.Try(), "0", []string{y.Reads()}, []scripttest.RWWait{w}),
				scripttest.Step("enqueue behind one who writes", x.Enqueue(), "0", []string{y.Reads()}, []scripttest.RWWait{w, x}),
				scripttest.Step("enqueue, again to read", z.Enqueue(), "0", []string{y.Reads()}, []scripttest.RWWait{w, x, z}),
				scripttest.Step("enqueue, again to write", v.Enqueue(), "0", []string{y.Reads()}, []scripttest.RWWait{w, x, z, v}),
				scripttest.Step("the last who reads goes", y.Release(), "1", []string{w.Reserved()}, []scripttest.RWWait{x, z, v}),
				scripttest.Step("try, reserved", y.Try(), "0", []string{w.Reserved()}, []scripttest.RWWait{x, z, v}),
				scripttest.Step("claim, reserved for others", x.Claim(), "0", []string{w.Reserved()}, []scripttest.RWWait{x, z, v}),
				scripttest.Step("claim, reserved, not queued", y.Claim(), "3", []string{w.Reserved()}, []scripttest.RWWait{x, z, v}),
				scripttest.Step("claim, reserved for it", w.Claim(), "1", []string{w.Writes()}, []scripttest.RWWait{x, z, v}),
				scripttest.Step("enqueue, writes", w.Enqueue(), "1", []string{w.Writes()}, []scripttest.RWWait{x, z, v}),
				scripttest.Step("try, writes", w.Try(), "1", []string{w.Writes()}, []scripttest.RWWait{x, z, v}),
				scripttest.Step("release, two who read are the next", w.Release(), "1", []string{x.Reserved(), z.Reserved()}, []scripttest.RWWait{v}),
				scripttest.Step("enqueue, reserved for it", x.EnqueueAgain("7"), "1", []string{x.Reads(), z.Reserved()}, []scripttest.RWWait{v}),
				scripttest.Step("cancel, reserved for it", z.Cancel(0), "1", []string{x.Reads()}, []scripttest.RWWait{v}),
				scripttest.Step("release", x.Release(), "1", []string{v.Reserved()}, nil),
				scripttest.Step("cancel of the last", v.Cancel(1), "1", nil, nil),
			)
			require.Equal(t, int64(0), b.Do("EXISTS", b.Key, b.QueueKey(), b.BeatsKey(), b.Key+":h"))
		})
	}
}

// A hold that a waiter has is its wait's: a late copy of a request to write is
// no grant to one who only reads.
func TestRWScriptCopiesOfARequestToWrite(t *testing.T) {
	s := redistest.Shared(t)
	b := scripttest.NewReadWrite(t, s)
	w := scripttest.RWWaitNamed("c1", 1, "wf")
	b.Steps(
		scripttest.Step("try", w.Try(), "1", []string{w.Writes()}, nil),
		scripttest.Step("reads too", w.Enter(1, 1, 2, scripttest.Lease), "1", []string{w.Writes()}, nil),
		scripttest.Step("reads only", w.Leave(1, 0, 3), "1", []string{w.Reads()}, nil),
		scripttest.Step("late copy of try", w.Try(), "0", []string{w.Reads()}, nil),
		scripttest.Step("late copy of claim", w.Claim(), "3", []string{w.Reads()}, nil),
		scripttest.Step("late copy of enqueue", w.Enqueue(), "0", []string{w.Reads()}, []scripttest.RWWait{w}),
		scripttest.Step("its cancel", w.Cancel(0), "1", []string{w.Reads()}, nil),
	)
}

// Readers next to each other get the lock together, 64 at once; when one of
// them takes it, more come along. One who writes is alone.
func TestRWScriptReadersTogether(t *testing.T) {
	s := redistest.Shared(t)
	b := scripttest.NewReadWrite(t, s)
	holder, writer, behind := scripttest.RWWaitNamed("c9", 1, "wf"), scripttest.RWWaitNamed("c3", 1, "wf"), scripttest.RWWaitNamed("c1", 999, "sf")
	require.Equal(t, "1", b.Code(holder.Try()))
	b.Show(map[string]scripttest.Beat{"c1": {Age: 0, Counted: 0}, "c3": {Age: 0, Counted: 0}})
	var readers []scripttest.RWWait
	for i := range 100 {
		readers = append(readers, scripttest.RWWaitNamed("c1", i+1, "sf"))
	}
	b.Stand(time.Minute, append(append(scripttest.RWGone(3, "wf"), readers...), writer, behind)...)
	l := b.Listen(s, "c1")
	require.Equal(t, "1", b.Code(holder.Release()))
	require.Len(t, b.Lock(), batchOfReaders)
	var names []string
	for _, w := range readers[:batchOfReaders] {
		names = append(names, string(w.Wait))
		require.Contains(t, b.Lock(), w.Reserved())
	}
	require.Equal(t, []string{names[0] + " " + b.Key, strings.Join(names[1:], ",") + " " + b.Key}, l.Heard(), "one message for all but the first")
	require.Equal(t, "1", b.Code(readers[0].Claim()))
	require.Len(t, b.Lock(), len(readers), "more come along")
	b.RequireQueue("one who writes has to wait", writer, behind)
	for _, w := range readers[1:] {
		require.Equal(t, "1", b.Code(w.Claim()))
	}
	require.Equal(t, "0", b.Code(behind.Claim()))
	for _, w := range readers {
		b.RequireQueue("one who writes has to wait", writer, behind)
		require.Equal(t, "1", b.Code(w.Release()))
	}
	require.Equal(t, []string{writer.Reserved()}, b.Lock())
	require.Equal(t, "1", b.Code(writer.Claim()))
	require.Equal(t, "1", b.Code(writer.Release()))
	require.Equal(t, []string{behind.Reserved()}, b.Lock())
}

const batchOfReaders = 64
