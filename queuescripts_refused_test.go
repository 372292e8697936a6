package relock

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
)

// Without memory a lock is given back and handed over; what takes it or waits for it changes nothing.
func TestQueueScriptsOutOfMemory(t *testing.T) {
	s := redistest.Start(t)
	w, other := waitNamed("c1", 1, "pf"), waitNamed("c2", 1, "pf")
	holder, reentrant := waitNamed("c9", 1, "pf"), waitNamed("c9", 1, "rf")
	beats := map[string]shownBeat{"c1": {0, 0}, "c2": {0, 0}}
	full := func(t *testing.T) {
		s.Do(t, "CONFIG", "SET", "maxmemory", "1")
		t.Cleanup(func() { s.Do(t, "CONFIG", "SET", "maxmemory", "0") })
	}
	for name, tt := range map[string]struct {
		script script.Call
		held   scriptWait
	}{
		"release":                 {holder.release(), holder},
		"reentrant_release":       {reentrant.release(), reentrant},
		"cancel":                  {holder.cancel(1), holder},
		"cancel for nobody":       {nobody.cancel(0), nobody},
		"poll":                    {pollAs("c2"), nobody},
		"try":                     {other.try(), nobody},
		"claim, not queued":       {waitNamed("c2", 2, "pf").claim(), nobody},
		"claim, not the first":    {other.claim(), nobody},
		"poll, puts back another": {pollAs("c1", string(waitNamed("c1", 2, "pf")), "9999999999999999"), nobody},
	} {
		t.Run("hands over/"+name, func(t *testing.T) {
			b := newQueueScripts(t, s)
			if tt.held != nobody {
				require.Equal(t, "1", b.code(tt.held.try()))
			}
			b.show(beats)
			b.line(time.Minute, append(staleWaits(3), w, other)...)
			full(t)
			b.ask(tt.script)
			left := []scriptWait{other}
			if strings.HasPrefix(name, "poll, puts") {
				left = append(left, waitNamed("c1", 2, "pf"))
			}
			b.requireHandedTo(w, left)
		})
	}
	for name, tt := range map[string]struct {
		script script.Call
		held   string
		line   []scriptWait
	}{
		"try":                          {w.try(), "", nil},
		"try, reentrant":               {waitNamed("c1", 1, "rf").try(), "", nil},
		"enqueue, free":                {w.enqueue(), "", nil},
		"enqueue, free, reentrant":     {waitNamed("c1", 1, "ru").enqueue(), "", nil},
		"enqueue, held":                {w.enqueue(), holder.held(), nil},
		"enqueue, others wait":         {w.enqueue(), "", []scriptWait{other}},
		"enqueue, reserved for it":     {w.enqueue(), w.reserved(), []scriptWait{other}},
		"enqueue, unfair, waits":       {waitNamed("c1", 1, "pu").enqueueAgain("5", ""), "", []scriptWait{waitNamed("c1", 1, "pu")}},
		"claim, reserved for it":       {w.claim(), w.reserved(), []scriptWait{other}},
		"claim, unfair, free":          {waitNamed("c1", 1, "pu").claim(), "", []scriptWait{other, waitNamed("c1", 1, "pu")}},
		"claim, reentrant, free":       {waitNamed("c1", 1, "ru").claim(), "", []scriptWait{other, waitNamed("c1", 1, "ru")}},
		"enqueue, after an earlier":    {w.enqueueAgain("", holder.hold()), holder.held(), nil},
		"enqueue again, keeps a place": {w.enqueueAgain("5", ""), holder.held(), []scriptWait{w}},
	} {
		t.Run("refused/"+name, func(t *testing.T) {
			b := newQueueScripts(t, s)
			if tt.held != "" {
				b.do("SET", b.key, tt.held, "PX", 20_000)
			}
			if tt.line != nil {
				b.show(beats)
				b.line(time.Minute, tt.line...)
			}
			before := b.all()
			full(t)
			_, err := b.send(tt.script)
			require.ErrorContains(t, err, "OOM")
			require.Equal(t, before, b.all())
		})
	}
	t.Run("a poll shows that its client lives, and puts back", func(t *testing.T) {
		b := newQueueScripts(t, s)
		require.Equal(t, "1", b.code(holder.try()))
		full(t)
		require.Equal(t, []string{"1", ""}, b.ask(pollAs("c1", string(w), 77))[:2])
		require.Equal(t, []string{string(w)}, b.waits())
		require.Equal(t, "77", b.field("t"))
		require.NotEmpty(t, b.field("c1"))
	})
}
