package lua_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
)

// onReplica empties the server, lets put write to it, and makes it a replica
// whose master cannot be reached.
func onReplica(b *Queue, put func()) {
	b.Helper()
	b.Do("REPLICAOF", "NO", "ONE")
	b.Do("FLUSHALL")
	put()
	b.Do("REPLICAOF", "127.0.0.1", "1")
}

// That a replica does not have a hold says nothing, as what it knows may be
// old: no script reports that, nor to a user who may do no more than the least.
func TestScriptsOnAReplica(t *testing.T) {
	t.Parallel()
	s := redistest.StartTCP(t)
	b := NewQueue(t, s)
	locktest.ReadPrivileges(t).Allow(t, s, "allkeys")
	reads, permit := WaitNamed("c1", 1, "su"), PermitNamed("c1", 1, "u", 2, 0)
	forLeast := []script.Call{
		{Script: script.Release, Args: []any{"a", 0, ""}},
		RenewOf("a", time.Second),
		ReentrantReleaseOf("h", 0, 2, 0),
		ReentrantRenewOf("h", time.Second),
	}
	all := append([]script.Call{
		AcquireOf("a", "", time.Second), ReentrantAcquireOf("a", "h", time.Second),
		EnterOf("h", 2, 2, time.Second), TransferOf("h", "i", time.Second),
		reads.Release(), reads.Renew(time.Second), reads.Enter(2, 0, 2, time.Second),
		wants(script.RedLockAcquire, "a", ""), wants(script.RedLockWait, "a", "c1:1:q"),
		wants(script.RedLockWait.Fenced, "a", "c1:1:q"),
		permit.Release(), permit.Renew(time.Second),
	}, forLeast...)
	for _, w := range []Wait{WaitNamed("c1", 1, "pu"), reads, permit} {
		all = append(all, w.End("look", ""), w.End("end", "why", "h"), w.End("free", "why", "h"))
	}
	for content, put := range map[string]func(){
		"nothing":       func() {},
		"a reservation": func() { b.Store(WaitNamed("c1", 1, "rf").Reserved()) },
		"another type":  func() { b.Do("LPUSH", b.Key, "x"); b.Do("PEXPIRE", b.Key, 60_000) },
	} {
		onReplica(b, put)
		for _, call := range all {
			t.Log(content, call.Args)
			b.RequireError(call, "READONLY")
		}
	}
	b.Less = s.Dial(t)
	_, err := b.Less.Do("AUTH", "app", "password")
	require.NoError(t, err)
	for _, call := range forLeast {
		b.RequireError(call, "READONLY")
	}
}

// What a replica knows of a lock that others have, or that is to be forced
// open, says nothing either.
func TestScriptsOnAReplicaThatHasTheLock(t *testing.T) {
	t.Parallel()
	b := NewQueue(t, redistest.StartTCP(t))
	for _, letters := range []string{"pf", "wf"} {
		holder, w := WaitNamed("c2", 1, letters), WaitNamed("c1", 1, letters)
		onReplica(b, func() {
			b.RequireDone(holder.Try())
			b.Line(time.Minute, w)
		})
		b.RequireError(w.Claim(), "READONLY")
	}
	for _, letters := range append([]string{"su", "wf"}, allLetters...) {
		holder := WaitNamed("c2", 1, letters)
		for _, marked := range []bool{false, true} {
			onReplica(b, func() {
				b.RequireDone(holder.Try())
				if marked {
					b.Mark(holder)
				}
			})
			for _, call := range []script.Call{
				holder.End("look", ""), holder.End("end", "why", holder.Hold()), holder.Release(),
			} {
				b.RequireError(call, "READONLY")
			}
		}
	}
}

// A node of a RedLock that is a replica of another one has that one's hold,
// which must not count again.
func TestRedLockOnAReplica(t *testing.T) {
	t.Parallel()
	b := NewQueue(t, redistest.StartTCP(t))
	for _, held := range []string{Plain3, locktest.RedValue("theirs", 3), Plain1} {
		onReplica(b, func() { b.Store(held) })
		b.RequireError(wants(script.RedLockAcquire, Plain1, ""), "READONLY")
		b.RequireError(wants(script.RedLockWait, Plain1, "c1:1:q"), "READONLY")
	}
}
