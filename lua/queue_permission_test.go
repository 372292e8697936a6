package lua_test

import (
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/scripttest"
)

// A release frees the lock whatever becomes of the queue.
func TestQueueScriptsReleaseWithoutPermission(t *testing.T) {
	s := redistest.Start(t)
	w, gone := scripttest.WaitNamed("c1", 1, "pf"), scripttest.WaitNamed("gone", 1, "pf")
	for _, letters := range allLetters {
		holder := scripttest.WaitNamed("c9", 1, letters)
		for _, tt := range []struct {
			denied string
			chosen scripttest.Wait
			left   []scripttest.Wait
		}{
			{"-zrange", scripttest.Nobody, []scripttest.Wait{gone, w}},
			{"-time", scripttest.Nobody, []scripttest.Wait{gone, w}},
			{"-publish", w, nil},
			{"-zremrangebyrank", scripttest.Nobody, []scripttest.Wait{gone, w}},
			{"-exists", w, nil},
			{"-set", scripttest.Nobody, []scripttest.Wait{gone, w}},
		} {
			for how, script := range map[string]script.Call{"release": holder.Release(), "cancel": holder.Cancel(1)} {
				t.Run(letters+"/"+tt.denied+"/"+how, func(t *testing.T) {
					b := scripttest.NewQueue(t, s)
					require.Equal(t, "1", b.Code(holder.Try()))
					b.Show(map[string]scripttest.Beat{"c1": {Age: 0, Counted: 0}})
					b.Line(time.Minute, gone, w)
					b.Deny(s, tt.denied)
					require.Equal(t, "1", b.Code(script))
					if tt.chosen == scripttest.Nobody {
						require.Empty(t, b.Lock())
						require.Len(t, b.Waits(), len(tt.left))
						return
					}
					b.RequireHandedTo(tt.chosen, tt.left)
				})
			}
		}
	}
	t.Run("the queue is something else", func(t *testing.T) {
		for _, letters := range allLetters {
			b := scripttest.NewQueue(t, s)
			holder := scripttest.WaitNamed("c9", 1, letters)
			require.Equal(t, "1", b.Code(holder.Try()))
			b.Do("SET", b.QueueKey(), "text", "PX", 20_000)
			require.Equal(t, "1", b.Code(holder.Release()))
			require.Empty(t, b.Lock())
		}
	})
	t.Run("the lock's key alone", func(t *testing.T) {
		for _, letters := range allLetters {
			b := scripttest.NewQueue(t, s)
			holder := scripttest.WaitNamed("c9", 1, letters)
			require.Equal(t, "1", b.Code(holder.Try()))
			b.Show(map[string]scripttest.Beat{"c1": {Age: 0, Counted: 0}})
			b.Line(time.Minute, w)
			alone := holder.Release().Script.BySource([]string{b.Key}, holder.Release().Args)
			require.Equal(t, int64(1), b.Do(alone.Cmd, alone.Args...))
			require.Empty(t, b.Lock())
			require.Equal(t, []string{string(w)}, b.Waits())
		}
	})
}

// What cannot be read is an error that says so, and no conflict; nothing is
// changed.
func TestQueueScriptsErrors(t *testing.T) {
	s := redistest.Start(t)
	for _, letters := range allLetters {
		w, holder := scripttest.WaitNamed("c1", 1, letters), scripttest.WaitNamed("c9", 1, letters)
		denied := "-hmget"
		if letters[0] == 'p' {
			denied = "-get"
		}
		for name, script := range map[string]script.Call{
			"try": w.Try(), "enqueue": w.Enqueue(), "claim": w.Claim(), "cancel": w.Cancel(1), "poll": scripttest.PollAs("c1", string(w), 5), "release": holder.Release(),
		} {
			t.Run(letters+"/"+name, func(t *testing.T) {
				b := scripttest.NewQueue(t, s)
				require.Equal(t, "1", b.Code(holder.Try()))
				b.Line(time.Minute, w)
				before := b.All()
				b.Deny(s, denied)
				_, err := b.Send(script)
				var line redis.Error
				require.ErrorAs(t, err, &line)
				require.True(t, driver.IsDenied(line), line)
				require.Equal(t, before, b.All())
			})
		}
	}
}

// A reentrant lock that may have no expiry goes, or becomes something that has
// one.
func TestQueueScriptsNoPermissionForAnExpiry(t *testing.T) {
	s := redistest.Start(t)
	for _, letters := range []string{"ru", "rf"} {
		w := scripttest.WaitNamed("c1", 1, letters)
		for name, tt := range map[string]struct {
			denied   []any
			reserved bool
			lock     string
		}{
			"free":                    {[]any{"-pexpire"}, false, ""},
			"reserved":                {[]any{"-pexpire"}, true, ""},
			"free, it may not delete": {[]any{"-pexpire", "-del"}, false, "relock/1|denied"},
		} {
			for how, script := range map[string]script.Call{"try": w.Try(), "enqueue": w.Enqueue(), "claim": w.Claim()} {
				if how != "claim" && tt.reserved || how == "claim" && !tt.reserved {
					continue
				}
				t.Run(letters+"/"+name+"/"+how, func(t *testing.T) {
					b := scripttest.NewQueue(t, s)
					if tt.reserved {
						b.Do("SET", b.Key, w.Reserved(), "PX", 7000)
					}
					b.Deny(s, tt.denied...)
					_, err := b.Send(script)
					var line redis.Error
					require.ErrorAs(t, err, &line)
					require.True(t, driver.IsDenied(line), line)
					require.Equal(t, tt.lock, b.Lock())
				})
			}
		}
	}
	t.Run("queue", func(t *testing.T) {
		w, other, holder := scripttest.WaitNamed("c1", 1, "pf"), scripttest.WaitNamed("c2", 1, "pf"), scripttest.WaitNamed("c9", 1, "pf")
		for _, line := range [][]scripttest.Wait{nil, {other}} {
			b := scripttest.NewQueue(t, s)
			require.Equal(t, "1", b.Code(holder.Try()))
			if line != nil {
				b.Line(time.Minute, line...)
			}
			before := b.All()
			b.Deny(s, "-pexpire")
			for _, script := range []script.Call{w.Enqueue(), scripttest.PollAs("c1", string(w), 5)} {
				_, err := b.Send(script)
				var refusal redis.Error
				require.ErrorAs(t, err, &refusal)
				require.True(t, driver.IsDenied(refusal), refusal)
				require.Equal(t, before, b.All())
			}
		}
	})
}
