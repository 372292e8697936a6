package relock

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
)

// One call after another, for each mode: the answer, what the lock becomes, and who waits then.
func TestRWScriptAnswers(t *testing.T) {
	s := redistest.Shared(t)
	for _, mode := range []string{"f", "u"} {
		t.Run(mode, func(t *testing.T) {
			x, y, z := rwWaitNamed("c1", 1, "s"+mode), rwWaitNamed("c2", 1, "s"+mode), rwWaitNamed("c3", 1, "s"+mode)
			v, w := rwWaitNamed("c4", 1, "w"+mode), rwWaitNamed("c5", 1, "w"+mode)
			b := newRWBench(t, s)
			two := []string{x.reads(), y.reads()}
			b.steps(
				rwStep{"claim, free, not queued", x.claim(), "3", nil, nil},
				rwStep{"try, free", x.try(), "1", []string{x.reads()}, nil},
				rwStep{"try, has it", x.try(), "1", []string{x.reads()}, nil},
				rwStep{"try, beside another that reads", y.try(), "1", two, nil},
				rwStep{"try, to write", w.try(), "0", two, nil},
				rwStep{"claim, has it", y.claim(), "1", two, nil},
				rwStep{"enqueue, has it", y.enqueue(), "1", two, nil},
				rwStep{"claim, to write, not queued", w.claim(), "3", two, nil},
				rwStep{"enqueue, to write", w.enqueue(), "0", two, []rwWait{w}},
				rwStep{"claim, to write", w.claim(), "0", two, []rwWait{w}},
				rwStep{"cancel without the hold", x.cancel(0), "1", two, []rwWait{w}},
				rwStep{"cancel with the hold", x.cancel(1), "1", []string{y.reads()}, []rwWait{w}},
				rwStep{"cancel for nobody", rwNobody.cancel(0), "1", []string{y.reads()}, []rwWait{w}},
				rwStep{"release, not held", x.release(), "0", []string{y.reads()}, []rwWait{w}},
			)
			b.stand(time.Minute, w) // it has waited for long
			b.steps(
				rwStep{"try, one who writes waits", x.try(), "0", []string{y.reads()}, []rwWait{w}},
				rwStep{"enqueue behind one who writes", x.enqueue(), "0", []string{y.reads()}, []rwWait{w, x}},
				rwStep{"enqueue, again to read", z.enqueue(), "0", []string{y.reads()}, []rwWait{w, x, z}},
				rwStep{"enqueue, again to write", v.enqueue(), "0", []string{y.reads()}, []rwWait{w, x, z, v}},
				rwStep{"the last who reads goes", y.release(), "1", []string{w.reserved()}, []rwWait{x, z, v}},
				rwStep{"try, reserved", y.try(), "0", []string{w.reserved()}, []rwWait{x, z, v}},
				rwStep{"claim, reserved for others", x.claim(), "0", []string{w.reserved()}, []rwWait{x, z, v}},
				rwStep{"claim, reserved, not queued", y.claim(), "3", []string{w.reserved()}, []rwWait{x, z, v}},
				rwStep{"claim, reserved for it", w.claim(), "1", []string{w.writes()}, []rwWait{x, z, v}},
				rwStep{"enqueue, writes", w.enqueue(), "1", []string{w.writes()}, []rwWait{x, z, v}},
				rwStep{"try, writes", w.try(), "1", []string{w.writes()}, []rwWait{x, z, v}},
				rwStep{"release, two who read are the next", w.release(), "1", []string{x.reserved(), z.reserved()}, []rwWait{v}},
				rwStep{"enqueue, reserved for it", x.enqueueAgain("7"), "1", []string{x.reads(), z.reserved()}, []rwWait{v}},
				rwStep{"cancel, reserved for it", z.cancel(0), "1", []string{x.reads()}, []rwWait{v}},
				rwStep{"release", x.release(), "1", []string{v.reserved()}, nil},
				rwStep{"cancel of the last", v.cancel(1), "1", nil, nil},
			)
			require.Equal(t, int64(0), b.do("EXISTS", b.key, b.queue(), b.beats(), b.key+":h"))
		})
	}
}

// A hold that a waiter has is its wait's: a late copy of a request to write is no grant to one who only reads.
func TestRWScriptCopiesOfARequestToWrite(t *testing.T) {
	s := redistest.Shared(t)
	b := newRWBench(t, s)
	w := rwWaitNamed("c1", 1, "wf")
	b.steps(
		rwStep{"try", w.try(), "1", []string{w.writes()}, nil},
		rwStep{"reads too", w.enter(1, 1, 2, scriptLease), "1", []string{w.writes()}, nil},
		rwStep{"reads only", w.leave(1, 0, 3), "1", []string{w.reads()}, nil},
		rwStep{"late copy of try", w.try(), "0", []string{w.reads()}, nil},
		rwStep{"late copy of claim", w.claim(), "3", []string{w.reads()}, nil},
		rwStep{"late copy of enqueue", w.enqueue(), "0", []string{w.reads()}, []rwWait{w}},
		rwStep{"its cancel", w.cancel(0), "1", []string{w.reads()}, nil},
	)
}

// Readers next to each other get the lock together, 64 at once; when one of them takes it, more come along. One who writes is alone.
func TestRWScriptReadersTogether(t *testing.T) {
	s := redistest.Shared(t)
	b := newRWBench(t, s)
	holder, writer, behind := rwWaitNamed("c9", 1, "wf"), rwWaitNamed("c3", 1, "wf"), rwWaitNamed("c1", 999, "sf")
	require.Equal(t, "1", b.code(holder.try()))
	b.show(map[string]shownBeat{"c1": {0, 0}, "c3": {0, 0}})
	var readers []rwWait
	for i := range 100 {
		readers = append(readers, rwWaitNamed("c1", i+1, "sf"))
	}
	b.stand(time.Minute, append(append(rwGone(3, "wf"), readers...), writer, behind)...)
	l := b.listen(s, "c1")
	require.Equal(t, "1", b.code(holder.release()))
	require.Len(t, b.lock(), batchOfReaders)
	var names []string
	for _, w := range readers[:batchOfReaders] {
		names = append(names, string(w.scriptWait))
		require.Contains(t, b.lock(), w.reserved())
	}
	require.Equal(t, []string{names[0] + " " + b.key, strings.Join(names[1:], ",") + " " + b.key}, l.heard(), "one message for all but the first")
	require.Equal(t, "1", b.code(readers[0].claim()))
	require.Len(t, b.lock(), len(readers), "more come along")
	b.requireQueue("one who writes has to wait", writer, behind)
	for _, w := range readers[1:] {
		require.Equal(t, "1", b.code(w.claim()))
	}
	require.Equal(t, "0", b.code(behind.claim()))
	for _, w := range readers {
		b.requireQueue("one who writes has to wait", writer, behind)
		require.Equal(t, "1", b.code(w.release()))
	}
	require.Equal(t, []string{writer.reserved()}, b.lock())
	require.Equal(t, "1", b.code(writer.claim()))
	require.Equal(t, "1", b.code(writer.release()))
	require.Equal(t, []string{behind.reserved()}, b.lock())
}

const batchOfReaders = 64
