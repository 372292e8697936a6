package relock

import (
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
)

// A release frees the lock whatever becomes of the queue.
func TestQueueScriptsReleaseWithoutPermission(t *testing.T) {
	s := redistest.Start(t)
	w, gone := waitNamed("c1", 1, "pf"), waitNamed("gone", 1, "pf")
	for _, letters := range allLetters {
		holder := waitNamed("c9", 1, letters)
		for _, tt := range []struct {
			denied string
			chosen scriptWait
			left   []scriptWait
		}{
			{"-zrange", nobody, []scriptWait{gone, w}},
			{"-time", nobody, []scriptWait{gone, w}},
			{"-publish", w, nil},
			{"-zremrangebyrank", nobody, []scriptWait{gone, w}},
			{"-exists", w, nil},
			{"-set", nobody, []scriptWait{gone, w}},
		} {
			for how, script := range map[string]script.Call{"release": holder.release(), "cancel": holder.cancel(1)} {
				t.Run(letters+"/"+tt.denied+"/"+how, func(t *testing.T) {
					b := newQueueScripts(t, s)
					require.Equal(t, "1", b.code(holder.try()))
					b.show(map[string]shownBeat{"c1": {0, 0}})
					b.line(time.Minute, gone, w)
					b.deny(s, tt.denied)
					require.Equal(t, "1", b.code(script))
					if tt.chosen == nobody {
						require.Empty(t, b.lock())
						require.Len(t, b.waits(), len(tt.left))
						return
					}
					b.requireHandedTo(tt.chosen, tt.left)
				})
			}
		}
	}
	t.Run("the queue is something else", func(t *testing.T) {
		for _, letters := range allLetters {
			b := newQueueScripts(t, s)
			holder := waitNamed("c9", 1, letters)
			require.Equal(t, "1", b.code(holder.try()))
			b.do("SET", b.queue(), "text", "PX", 20_000)
			require.Equal(t, "1", b.code(holder.release()))
			require.Empty(t, b.lock())
		}
	})
	t.Run("the lock's key alone", func(t *testing.T) {
		for _, letters := range allLetters {
			b := newQueueScripts(t, s)
			holder := waitNamed("c9", 1, letters)
			require.Equal(t, "1", b.code(holder.try()))
			b.show(map[string]shownBeat{"c1": {0, 0}})
			b.line(time.Minute, w)
			alone := holder.release().Script.BySource([]string{b.key}, holder.release().Args)
			require.Equal(t, int64(1), b.do(alone.Cmd, alone.Args...))
			require.Empty(t, b.lock())
			require.Equal(t, []string{string(w)}, b.waits())
		}
	})
}

// deny lets the scripts run with fewer permissions from now on; the test itself keeps its own.
func (b *queueScripts) deny(s *redistest.Server, rules ...any) {
	b.Helper()
	s.Do(b, "ACL", append([]any{"SETUSER", "less", "reset", "on", "nopass", "~*", "&*", "+@all"}, rules...)...)
	conn := s.Dial(b)
	_, err := conn.Do("AUTH", "less", "")
	require.NoError(b, err)
	b.less = conn
	b.Cleanup(func() { _ = conn.Close() })
}

// What cannot be read is an error that says so, and no conflict; nothing is changed.
func TestQueueScriptsErrors(t *testing.T) {
	s := redistest.Start(t)
	for _, letters := range allLetters {
		w, holder := waitNamed("c1", 1, letters), waitNamed("c9", 1, letters)
		denied := "-hmget"
		if letters[0] == 'p' {
			denied = "-get"
		}
		for name, script := range map[string]script.Call{
			"try": w.try(), "enqueue": w.enqueue(), "claim": w.claim(), "cancel": w.cancel(1), "poll": pollAs("c1", string(w), 5), "release": holder.release(),
		} {
			t.Run(letters+"/"+name, func(t *testing.T) {
				b := newQueueScripts(t, s)
				require.Equal(t, "1", b.code(holder.try()))
				b.line(time.Minute, w)
				before := b.all()
				b.deny(s, denied)
				_, err := b.send(script)
				var line redis.Error
				require.ErrorAs(t, err, &line)
				require.True(t, driver.IsDenied(line), line)
				require.Equal(t, before, b.all())
			})
		}
	}
}

// A reentrant lock that may have no expiry goes, or becomes something that has one.
func TestQueueScriptsNoPermissionForAnExpiry(t *testing.T) {
	s := redistest.Start(t)
	for _, letters := range []string{"ru", "rf"} {
		w := waitNamed("c1", 1, letters)
		for name, tt := range map[string]struct {
			denied   []any
			reserved bool
			lock     string
		}{
			"free":                    {[]any{"-pexpire"}, false, ""},
			"reserved":                {[]any{"-pexpire"}, true, ""},
			"free, it may not delete": {[]any{"-pexpire", "-del"}, false, "relock/1|denied"},
		} {
			for how, script := range map[string]script.Call{"try": w.try(), "enqueue": w.enqueue(), "claim": w.claim()} {
				if how != "claim" && tt.reserved || how == "claim" && !tt.reserved {
					continue
				}
				t.Run(letters+"/"+name+"/"+how, func(t *testing.T) {
					b := newQueueScripts(t, s)
					if tt.reserved {
						b.do("SET", b.key, w.reserved(), "PX", 7000)
					}
					b.deny(s, tt.denied...)
					_, err := b.send(script)
					var line redis.Error
					require.ErrorAs(t, err, &line)
					require.True(t, driver.IsDenied(line), line)
					require.Equal(t, tt.lock, b.lock())
				})
			}
		}
	}
	t.Run("queue", func(t *testing.T) {
		w, other, holder := waitNamed("c1", 1, "pf"), waitNamed("c2", 1, "pf"), waitNamed("c9", 1, "pf")
		for _, line := range [][]scriptWait{nil, {other}} {
			b := newQueueScripts(t, s)
			require.Equal(t, "1", b.code(holder.try()))
			if line != nil {
				b.line(time.Minute, line...)
			}
			before := b.all()
			b.deny(s, "-pexpire")
			for _, script := range []script.Call{w.enqueue(), pollAs("c1", string(w), 5)} {
				_, err := b.send(script)
				var refusal redis.Error
				require.ErrorAs(t, err, &refusal)
				require.True(t, driver.IsDenied(refusal), refusal)
				require.Equal(t, before, b.all())
			}
		}
	})
}
