package lua_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/script"
)

// storedOf returns what is stored of the attempts of a task, without the digits
// of its ticket and its fence.
func storedOf(b *Tasks, id string) string {
	b.Helper()
	stored, _ := b.Do("HGET", b.Key("m"), id).([]byte)
	fields := strings.SplitN(string(stored), " ", 4)
	require.Len(b, fields, 4, "%q", stored)
	require.Len(b, fields[2], 16, "a ticket")
	if name, rest, found := strings.Cut(fields[1], "@"); found {
		require.Len(b, name, 16, "a fence")
		fields[1] = "@" + rest
	}
	return fields[0] + " " + fields[1] + " " + fields[3]
}

// It is stored which client has a task, which lock it is behind, and why the
// last attempt failed, until the next one has failed or the task ends.
func TestTaskScriptsStoreWho(t *testing.T) {
	b := NewTasks(t, server)
	runsLonger(t)
	b.Enqueue("a key", "a")
	n := 0
	receive := func(undo bool) Delivery {
		t.Helper()
		n++
		return b.Receive(Receive{Receiver: worker, N: n, Want: 1, Undo: undo, Who: "who|x%20y"}).All[0]
	}
	d := receive(false)
	require.Equal(t, "1 @t0k3n/who|x%20y a key", storedOf(b, "a"))
	b.RequireSettled("n", "0 why\x00not", d)
	require.Equal(t, "1 0 a key\x00why\x00not", storedOf(b, "a"))
	receive(false)
	require.Equal(t, "2 @t0k3n/who|x%20y a key\x00why\x00not", storedOf(b, "a"))
	d = receive(true)
	require.Equal(t, "2 @t0k3n/who|x%20y a key\x00why\x00not", storedOf(b, "a"), "undone before")
	b.RequireSettled("r", "0", d)
	require.Equal(t, "1 0 a key\x00why\x00not", storedOf(b, "a"))
	d = receive(false)
	b.RequireSettled("b", "60000 a/b c%\n1", d)
	require.Equal(t, "1 0/a%2Fb%20c%25%0A1 a key\x00why\x00not", storedOf(b, "a"))
	pause(b, "a key")
	require.Empty(t, b.Receive(Receive{Receiver: other, N: 1, Want: 1, Lock: "a/b c%\n1"}).All)
	require.Equal(t, "1 0 a key\x00why\x00not", storedOf(b, "a"))
	resume(b, "a key")
	receive(false)
	interrupt(b, Receive{N: 1}, "a")
	require.Equal(t, "1~1 0 a key\x00why\x00not", storedOf(b, "a"))
	b.RequireSettled("n", "0", receive(false))
	require.Equal(t, "2~1 0 a key", storedOf(b, "a"), "without a reason")
	b.RequireSettled("n", "0 once more", receive(false))
	b.RequireSettled("d", "last", receive(false))
	require.Equal(t, "4~1 0 a key\x00last", storedOf(b, "a"))
}

// A number that another master has drawn again names no delivery: the token
// differs.
func TestTaskScriptsCompareTokens(t *testing.T) {
	b := NewTasks(t, server)
	b.Enqueue("", "a")
	r := Receive{Receiver: worker, N: 1, Want: 1, Token: "theirs"}
	d := b.Receive(r).All[0]
	for _, verb := range []string{"a", "d", "b"} {
		require.Equal(t, int64(0), b.Settle(d, verb, "60000 lock"))
	}
	require.Equal(t, []int64{0}, b.Ints(script.TaskRenew, "a", d.Name(), 1000))
	r.Token = ""
	require.Empty(t, b.Receive(r).All, "a copy")
	r.N, r.Undo = 2, true
	require.Empty(t, b.Receive(r).All)
	require.Equal(t, []string{"a"}, b.Members("l"), "not undone")
	r.Token, r.N = "theirs", 3
	r.Undo, r.Heard = false, 2
	require.Empty(t, b.Receive(r).All)
	require.Equal(t, []string{"a"}, b.Members("l"))
}
