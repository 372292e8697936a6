package relock

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/scripttest"
	"github.com/relock-go/relock/internal/testkit"
)

// Inspect tells who reads or writes, how many levels they have, and who waits.
func TestInspectRWLock(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	other := sibling(t, s, c)
	for mode, opts := range map[string][]LockOption{"unfair": nil, "fair": {WithFair()}} {
		t.Run(mode, func(t *testing.T) {
			key := "rw " + mode
			mine := owned("job:7|x", NewRWLock(key, c, append(opts, WithLabel("l"))...))
			theirs := owned("second", NewRWLock(key, other, opts...))
			require.NoError(t, mine.Lock(t.Context()))
			require.NoError(t, mine.RLock(t.Context()))
			info := inspect(t, other, key)
			require.Equal(t, StateHeld, info.State)
			require.Equal(t, "read/write", info.Kind)
			require.Equal(t, mode == "fair", info.Fair)
			require.Greater(t, info.Remaining, 25*time.Second)
			require.Empty(t, info.Readers)
			require.WithinDuration(t, time.Now(), info.Holder.Since, 10*time.Second)
			host, err := os.Hostname()
			require.NoError(t, err)
			require.Equal(t, Holder{c.engine.Identity.ID, host, os.Getpid(), "l", info.Holder.Since, "job:7|x", 2}, *info.Holder)

			ctx, cancel := context.WithCancel(t.Context())
			waits := testkit.Async(t, func() error { return NewRWLock(key, other, append(opts, WithBlock())...).Lock(ctx) })
			testkit.Eventually(t, testkit.Patience, func() bool { return inspect(t, c, key).Waiting == 1 }, "waits")
			w := inspect(t, c, key).Waiters[0]
			require.Equal(t, Waiter{other.engine.Identity.ID, w.Age, "read/write", mode == "fair"}, w)
			awaitHeard(t, s, keyOf(c, key), other) // by the poll that follows its subscription: a late one would put the wait back
			cancel()
			require.ErrorIs(t, testkit.ResultWithin(t, waits, testkit.Patience), context.Canceled)
			testkit.Eventually(t, testkit.Patience, func() bool { return inspect(t, c, key).Waiting == 0 }, "nobody waits")

			require.NoError(t, mine.Unlock(t.Context()))
			require.NoError(t, theirs.RLock(t.Context()))
			info = inspect(t, other, key)
			require.Nil(t, info.Holder)
			require.Len(t, info.Readers, 2)
			owners := map[string]int{info.Readers[0].Owner: info.Readers[0].Count, info.Readers[1].Owner: info.Readers[1].Count}
			require.Equal(t, map[string]int{"job:7|x": 1, "second": 1}, owners)
			require.Contains(t, listed2(t, c, "rw *"), key)
			require.NoError(t, mine.RUnlock(t.Context()))
			require.NoError(t, theirs.RUnlock(t.Context()))
			require.Equal(t, Info{Key: key, State: StateFree}, inspect(t, other, key))
		})
	}
}

func listed2(t testing.TB, c *Client, pattern string) (names []string) {
	t.Helper()
	for info, err := range c.List(t.Context(), pattern) {
		require.NoError(t, err)
		names = append(names, info.Key)
	}
	return names
}

// ForceUnlock ends all holds of a read/write lock; each of their holders is told why, and who waits has it.
func TestForceUnlockRWLock(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := patient(newTestClient(t, s))
	other := sibling(t, s, c)
	for mode, opts := range map[string][]LockOption{"unfair": nil, "fair": {WithFair()}} {
		t.Run(mode, func(t *testing.T) {
			key := "force " + mode
			var holds []Hold
			for _, owner := range []string{"a", "b", "c"} {
				h, err := owned(owner, NewRWLock(key, c, opts...)).RAcquire(t.Context())
				require.NoError(t, err)
				holds = append(holds, h)
			}
			writer := owned("w", NewRWLock(key, other, append(opts, WithBlock())...))
			waits := testkit.Async(t, func() error { return writer.Lock(t.Context()) })
			testkit.Eventually(t, testkit.Patience, func() bool { return inspect(t, c, key).Waiting == 1 }, "waits")
			require.NoError(t, other.ForceUnlock(t.Context(), key, "it hangs"))
			require.NoError(t, testkit.ResultWithin(t, waits, testkit.Patience))
			l := holds[1].(hold).level.Lease()
			l.RenewNow()
			require.ErrorIs(t, testkit.EndedWithin(t, holds[1].Context(), 5*time.Second), ErrForced)
			require.ErrorIs(t, owned("c", NewRWLock(key, c, opts...)).RLock(t.Context()), ErrForced)
			for _, h := range holds {
				err := h.Unlock(t.Context())
				require.ErrorIs(t, err, ErrForced)
				require.ErrorIs(t, err, ErrLockLost)
				require.ErrorContains(t, err, "it hangs")
			}
			require.NoError(t, writer.Unlock(t.Context()))
			require.ErrorIs(t, other.ForceUnlock(t.Context(), key, ""), ErrNotHeld)
		})
	}
}

// The scripts by themselves.
func TestRWInspectionScripts(t *testing.T) {
	s := redistest.Start(t)
	inspection, force := script.Call{Script: script.RWInspect}, script.Call{Script: script.RWForce, Args: []any{"why"}}
	x, y := scripttest.RWWaitNamed("c1", 1, "sf"), scripttest.RWWaitNamed("c2", 1, "wf")
	t.Run("denied", func(t *testing.T) {
		b := scripttest.NewReadWrite(t, s)
		b.Deny(s, "-zrange")
		for _, script := range []script.Call{inspection, force} {
			_, err := b.Send(script)
			require.Error(t, err)
		}
	})
	t.Run("free, and something else", func(t *testing.T) {
		b := scripttest.NewReadWrite(t, s)
		require.Equal(t, "free", b.Ask(inspection)[0])
		require.Equal(t, "0", b.Code(force))
		b.Do("SET", b.Key, "x", "PX", 60_000)
		require.Equal(t, "alien", b.Ask(inspection)[0])
		require.Equal(t, "-1", b.Code(force))
	})
	t.Run("read", func(t *testing.T) {
		b := scripttest.NewReadWrite(t, s)
		require.Equal(t, "1", b.Code(x.Try()))
		require.Equal(t, "read", b.Ask(inspection)[0])
		b.Show(map[string]scripttest.Beat{"c2": {Age: 0, Counted: 0}})
		b.Stand(time.Minute, y)
		require.Equal(t, "1", b.Code(force))
		require.Equal(t, []string{y.Reserved()}, b.Lock())
		require.Equal(t, []byte(x.Hold()+" why"), b.Do("GET", b.Key+script.NoticeSuffix))
		require.Equal(t, "write", b.Ask(inspection)[0])
		require.Equal(t, "1", b.Code(force), "reserved")
		require.Empty(t, b.Lock())
	})
	t.Run("more are gone than one script looks at", func(t *testing.T) {
		b := scripttest.NewReadWrite(t, s)
		require.Equal(t, "1", b.Code(x.Try()))
		b.Stand(time.Minute, scripttest.RWGone(130, "wf")...)
		require.Equal(t, "4", b.Code(force))
	})
}

// What may be noted of a hold is for people: without it there is less to tell.
func TestReadRWInfoOfAnything(t *testing.T) {
	some := func(change func(parts []any)) any {
		parts := []any{[]byte("read"), []byte("u"), []byte("1"), int64(100), int64(0), []any{}, []any{[]byte("r:c:1")}, []any{nil}}
		change(parts)
		return parts
	}
	for name, change := range map[string]func([]any){
		"nothing noted": func([]any) {},
		"too little":    func(p []any) { p[7] = []any{[]byte("1:0|x")} },
		"too few parts": func(p []any) { p[7] = []any{[]byte("1:0|relock/1|s|c|h")} },
	} {
		info, err := readRWInfo("k", some(change))
		require.NoError(t, err, name)
		require.Equal(t, []Holder{{Client: "c", Count: 1}}, info.Readers, name)
	}
	for _, reply := range []any{
		nil, []any{}, some(func(p []any) { p[2] = []byte("x") }), some(func(p []any) { p[7] = int64(1) }), some(func(p []any) { p[7] = []any{} }),
	} {
		_, err := readRWInfo("k", reply)
		require.ErrorIs(t, err, ErrKeyConflict)
	}
	_, err := readRWInfo("k", some(func(p []any) { p[0] = []byte("alien") }))
	require.ErrorIs(t, err, ErrKeyConflict)
}
