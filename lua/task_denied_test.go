package lua_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// taskCall is a script in a state in which it has much to do.
type taskCall struct {
	script *script.TaskScript
	setUp  func(b *Tasks) (args []any)
}

// dueTasks sets up tasks of all kinds for a receive: due, delayed, behind their
// keys, of leases that have ended, and of a receive that was not answered.
func dueTasks(b *Tasks) []any {
	b.Enqueue("k", "head", "behind head")
	b.Enqueue("last", "last", "behind last")
	b.Enqueue("", "ended")
	taken := b.Receive(Receive{Receiver: other, N: 1, Want: 3}).All
	require.Len(b, taken, 3)
	b.Receive(Receive{Receiver: worker, N: 1, Want: 1})
	b.Enqueue("", "unanswered")
	b.Receive(Receive{Receiver: worker, N: 2, Want: 1})
	for _, id := range []string{"last", "ended"} {
		b.EndLease(id)
	}
	b.EnqueueIn(time.Millisecond, "k", "joins")
	b.EnqueueIn(time.Millisecond, "new", "leads")
	b.Enqueue("", "due")
	testkit.Eventually(b, testkit.Patience, func() bool { return b.Now() > b.Score("w", "leads") },
		"the delayed ones are due")
	b.Do("ZADD", b.Key("i"), b.Now(), "c9:1")
	return Receive{Receiver: worker, N: 3, Undo: true, Want: 10, Fatal: 1, Lease: aMoment, Heartbeat: 1}.Args()
}

// settled sets up deliveries of which each is settled in another way.
func settled(verbs ...string) func(b *Tasks) []any {
	return func(b *Tasks) (args []any) {
		args = []any{60_000, 10, time.Hour.Milliseconds(), 1}
		for i, key := range []string{"", "k", "k2"} {
			for _, verb := range verbs {
				if i > 0 {
					key = fmt.Sprint(verb, i)
				}
				id := fmt.Sprint(verb, key, i)
				b.Enqueue(key, id)
				if i == 2 {
					b.Enqueue(key, "behind "+id)
				}
			}
		}
		for _, d := range b.Receive(Receive{Receiver: worker, N: 1, Want: 64}).All {
			args = append(args, d.ID, d.Name(), d.ID[:1], "0")
		}
		return args
	}
}

// taskCalls are the scripts that write.
func taskCalls() map[string]taskCall {
	deadOnes := func(b *Tasks) []any {
		b.Enqueue("k", "1", "2", "3")
		b.Enqueue("", "free")
		b.Enqueue("alone", "alone")
		for n := range 2 { // two of the key
			for _, d := range b.Receive(Receive{Receiver: worker, N: n + 1, Want: 5}).All {
				require.Equal(b, int64(1), b.Settle(d, "d", "why"))
			}
		}
		return []any{"1", "2", "free", "alone"}
	}
	calls := map[string]taskCall{
		"put": {script: script.TaskPut, setUp: func(b *Tasks) []any {
			b.Enqueue("", "old")
			b.Do("ZADD", b.Key("i"), b.Now(), other)
			args := PutOf(0, "new", "old", "newer")
			args[0] = Nonce(1)
			return args
		}},
		"put one": {script: script.TaskPut, setUp: func(*Tasks) []any { return PutOf(0, "new") }},
		"enqueue": {script: script.TaskEnqueue, setUp: func(b *Tasks) []any {
			b.Enqueue("k", "old")
			b.Do("ZADD", b.Key("i"), b.Now(), other)
			args := slices.Concat(EnqueueOf(0, "new", "a", "b"), EnqueueOf(0, "k", "c", "old", "d")[2:],
				EnqueueOf(0, "", "free")[2:],
				EnqueueOf(time.Millisecond, "k", "delayed")[2:])
			args[0], args[1] = Nonce(1), 1
			return args
		}},
		"receive": {script: script.TaskReceive, setUp: dueTasks},
		"receive what is due": {script: script.TaskReceive, setUp: func(b *Tasks) []any {
			b.Enqueue("", "a")
			b.Enqueue("k", "1", "2")
			return Receive{Receiver: worker, N: 1, Want: 5}.Args()
		}},
		"requeue":   {script: script.TaskRequeue, setUp: deadOnes},
		"the acks":  {script: script.TaskSettle, setUp: settled("a")},
		"retries":   {script: script.TaskSettle, setUp: settled("n")},
		"all verbs": {script: script.TaskSettle, setUp: settled("a", "n", "d", "r")},
	}
	calls["receive what joins its key"] = taskCall{script: script.TaskReceive, setUp: func(b *Tasks) []any {
		b.Enqueue("k", "head", "behind")
		b.EnqueueIn(time.Millisecond, "k", "joins", "joins too")
		b.EnqueueIn(time.Millisecond, "new", "leads", "follows")
		testkit.Eventually(b, testkit.Patience, func() bool { return b.Now() > b.Score("w", "follows") },
			"the delayed ones are due")
		return Receive{Receiver: worker, N: 1, Want: 10}.Args()
	}}
	paused := func(b *Tasks) {
		pause(b, "k")
		b.Enqueue("k", "1", "2")
		b.Enqueue("", "free")
		b.Receive(Receive{Receiver: "c7:1", N: 1, Want: 1})
	}
	calls["receive of a paused key"] = taskCall{script: script.TaskReceive, setUp: func(b *Tasks) []any {
		paused(b)
		pause(b, "l")
		b.Enqueue("l", "3", "4")
		return Receive{Receiver: worker, N: 1, Want: 5}.Args()
	}}
	calls["receive by lock of a paused key"] = taskCall{
		script: script.TaskReceive,
		setUp: func(b *Tasks) []any {
			putBehind(b, 1, "a", "k", "1", "2")
			pause(b, "k")
			return Receive{Receiver: other, N: 1, Want: 1, Lock: "a"}.Args()
		},
	}
	calls["pause"] = taskCall{script: script.TaskPause, setUp: func(b *Tasks) []any {
		paused(b)
		return []any{1, "l"}
	}}
	calls["resume a key"] = taskCall{script: script.TaskPause, setUp: func(b *Tasks) []any {
		paused(b)
		return []any{0, "k"}
	}}
	for name, id := range map[string]string{
		"a head": "1", "behind": "2", "the last of a key": "3", "without a key": "free",
	} {
		calls["remove "+name] = taskCall{script: script.TaskRemove, setUp: func(b *Tasks) []any {
			b.Enqueue("k", "1", "2", "3")
			b.Enqueue("", "free")
			return []any{id}
		}}
	}
	calls["requeue what died"] = taskCall{script: script.TaskRequeueDied, setUp: func(b *Tasks) []any {
		deadOnes(b)
		return []any{0, b.Now() + 1_000_000_000, 10, time.Hour.Milliseconds()}
	}}
	calls["remove a dead letter"] = taskCall{script: script.TaskRemove, setUp: func(b *Tasks) []any {
		return deadOnes(b)[:1]
	}}
	return calls
}

// A script that lacks a permission loses no task, leaves no id in use, and
// blocks no key. Once the permission is there, all goes on.
func TestTaskScriptsDenied(t *testing.T) {
	s := redistest.Start(t)
	text, err := os.ReadFile("../docs/queue.md")
	require.NoError(t, err)
	commands := regexp.MustCompile(`\+\w+`).FindAllString(string(text), -1)
	for name, call := range taskCalls() {
		for _, command := range commands {
			if slices.Contains([]string{"+eval", "+evalsha", "+subscribe"}, command) {
				continue
			}
			t.Run(name+" without "+command[1:], func(t *testing.T) {
				b := NewTasks(t, s)
				args := call.setUp(b)
				before := recordsOf(b)
				b.Deny("-" + command[1:])
				request := call.script.BySource(call.script.On(b.Q, worker), args)
				_, err := b.Less.Do(request.Cmd, request.Args...) // a task may be in two places now, which heals
				b.Less = nil
				after := recordsOf(b)
				switch {
				case err == nil:
				case call.script == script.TaskPut || call.script == script.TaskEnqueue:
					require.Equal(t, before, after, "%v", err)
				default:
					require.Subset(t, before, after, "%v", err)
				}
				done := drain(b)
				for _, id := range after {
					require.Contains(t, done, id, "is lost: %v", err)
				}
			})
		}
	}
}

// recordsOf returns the ids of all tasks.
func recordsOf(b *Tasks) []string {
	ids, err := redis.Strings(b.Do("HKEYS", b.Key("p")), nil)
	require.NoError(b, err)
	slices.Sort(ids)
	return ids
}

// drain ends all pauses, promises and leases, requeues all dead letters, and
// does all tasks, until nothing is left. It returns the ids of the tasks.
func drain(b *Tasks) (done []string) {
	b.Helper()
	left := leftOf(b)
	for n := 1; n < 50 && len(left) > 0; n++ {
		keys, err := redis.Strings(b.Do("HKEYS", b.Key("v")), nil)
		require.NoError(b, err)
		for _, key := range keys {
			resume(b, key)
		}
		for _, lock := range b.Members("g") {
			b.Ints(script.TaskGate, 0, lock)
		}
		for _, id := range b.Members("z") {
			b.Ints(script.TaskRequeue, id)
		}
		for _, id := range b.Members("l") {
			b.EndLease(id)
		}
		for _, d := range b.Receive(Receive{Receiver: "c8:1", N: n, Want: 64, Fatal: 100}).All {
			done = append(done, d.ID)
			require.Equal(b, int64(1), b.Settle(d, "a", ""))
		}
		left = leftOf(b)
	}
	for _, key := range left {
		require.Fail(b, "is left: "+key, redistest.ContentOver(b, b.Conn, key))
	}
	return done
}

// leftOf returns the keys of the queue that an empty one does not have.
func leftOf(b *Tasks) []string {
	b.Helper()
	keys, err := redis.Strings(b.Do("KEYS", b.Q+":*"), nil)
	require.NoError(b, err)
	return slices.DeleteFunc(keys, func(key string) bool {
		return slices.Contains([]string{"n", "u", "c", "i", "h"}, strings.TrimPrefix(key, b.Q+":")[:1])
	})
}
