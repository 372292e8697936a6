package lua_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/scripttest"
)

// Without memory a lock is given back and handed over; what takes it or waits
// for it changes nothing.
func TestQueueScriptsOutOfMemory(t *testing.T) {
	s := redistest.Start(t)
	w, other := scripttest.WaitNamed("c1", 1, "pf"), scripttest.WaitNamed("c2", 1, "pf")
	holder, reentrant := scripttest.WaitNamed("c9", 1, "pf"), scripttest.WaitNamed("c9", 1, "rf")
	beats := map[string]scripttest.Beat{"c1": {Age: 0, Counted: 0}, "c2": {Age: 0, Counted: 0}}
	full := func(t *testing.T) {
		s.Do(t, "CONFIG", "SET", "maxmemory", "1")
		t.Cleanup(func() { s.Do(t, "CONFIG", "SET", "maxmemory", "0") })
	}
	for name, tt := range map[string]struct {
		script script.Call
		held   scripttest.Wait
	}{
		"release":                 {holder.Release(), holder},
		"reentrant_release":       {reentrant.Release(), reentrant},
		"cancel":                  {holder.Cancel(1), holder},
		"cancel for nobody":       {scripttest.Nobody.Cancel(0), scripttest.Nobody},
		"poll":                    {scripttest.PollAs("c2"), scripttest.Nobody},
		"try":                     {other.Try(), scripttest.Nobody},
		"claim, not queued":       {scripttest.WaitNamed("c2", 2, "pf").Claim(), scripttest.Nobody},
		"claim, not the first":    {other.Claim(), scripttest.Nobody},
		"poll, puts back another": {scripttest.PollAs("c1", string(scripttest.WaitNamed("c1", 2, "pf")), "9999999999999999"), scripttest.Nobody},
	} {
		t.Run("hands over/"+name, func(t *testing.T) {
			b := scripttest.NewQueue(t, s)
			if tt.held != scripttest.Nobody {
				require.Equal(t, "1", b.Code(tt.held.Try()))
			}
			b.Show(beats)
			b.Line(time.Minute, append(scripttest.StaleWaits(3), w, other)...)
			full(t)
			b.Ask(tt.script)
			left := []scripttest.Wait{other}
			if strings.HasPrefix(name, "poll, puts") {
				left = append(left, scripttest.WaitNamed("c1", 2, "pf"))
			}
			b.RequireHandedTo(w, left)
		})
	}
	for name, tt := range map[string]struct {
		script script.Call
		held   string
		line   []scripttest.Wait
	}{
		"try":                          {w.Try(), "", nil},
		"try, reentrant":               {scripttest.WaitNamed("c1", 1, "rf").Try(), "", nil},
		"enqueue, free":                {w.Enqueue(), "", nil},
		"enqueue, free, reentrant":     {scripttest.WaitNamed("c1", 1, "ru").Enqueue(), "", nil},
		"enqueue, held":                {w.Enqueue(), holder.Held(), nil},
		"enqueue, others wait":         {w.Enqueue(), "", []scripttest.Wait{other}},
		"enqueue, reserved for it":     {w.Enqueue(), w.Reserved(), []scripttest.Wait{other}},
		"enqueue, unfair, waits":       {scripttest.WaitNamed("c1", 1, "pu").EnqueueAgain("5", ""), "", []scripttest.Wait{scripttest.WaitNamed("c1", 1, "pu")}},
		"claim, reserved for it":       {w.Claim(), w.Reserved(), []scripttest.Wait{other}},
		"claim, unfair, free":          {scripttest.WaitNamed("c1", 1, "pu").Claim(), "", []scripttest.Wait{other, scripttest.WaitNamed("c1", 1, "pu")}},
		"claim, reentrant, free":       {scripttest.WaitNamed("c1", 1, "ru").Claim(), "", []scripttest.Wait{other, scripttest.WaitNamed("c1", 1, "ru")}},
		"enqueue, after an earlier":    {w.EnqueueAgain("", holder.Hold()), holder.Held(), nil},
		"enqueue again, keeps a place": {w.EnqueueAgain("5", ""), holder.Held(), []scripttest.Wait{w}},
	} {
		t.Run("refused/"+name, func(t *testing.T) {
			b := scripttest.NewQueue(t, s)
			if tt.held != "" {
				b.Do("SET", b.Key, tt.held, "PX", 20_000)
			}
			if tt.line != nil {
				b.Show(beats)
				b.Line(time.Minute, tt.line...)
			}
			before := b.All()
			full(t)
			_, err := b.Send(tt.script)
			require.ErrorContains(t, err, "OOM")
			require.Equal(t, before, b.All())
		})
	}
	t.Run("a poll shows that its client lives, and puts back", func(t *testing.T) {
		b := scripttest.NewQueue(t, s)
		require.Equal(t, "1", b.Code(holder.Try()))
		full(t)
		require.Equal(t, []string{"1", ""}, b.Ask(scripttest.PollAs("c1", string(w), 77))[:2])
		require.Equal(t, []string{string(w)}, b.Waits())
		require.Equal(t, "77", b.Field("t"))
		require.NotEmpty(t, b.Field("c1"))
	})
}
