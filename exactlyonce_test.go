package relock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
)

// Requests that are lost, late, doubled or out of order: first each script by itself, then all of it through the client.

// --- The scripts by themselves.

// scriptBench runs scripts on one key of a real server.
type scriptBench struct {
	testing.TB
	conn redis.Conn
	key  string
}

func newScriptBench(t testing.TB, s *redistest.Server) *scriptBench {
	b := &scriptBench{TB: t, conn: s.Dial(t), key: "{" + t.Name() + "}"}
	t.Cleanup(func() { _ = b.conn.Close() })
	return b
}

func (b *scriptBench) do(command string, args ...any) any {
	b.Helper()
	reply, err := b.conn.Do(command, args...)
	require.NoError(b, err, command)
	return reply
}

func (b *scriptBench) try(s scripted) (any, error) {
	return b.conn.Do("EVAL", append([]any{s.script.source, 1, b.key}, s.args...)...)
}

func (b *scriptBench) run(s scripted) int64 {
	b.Helper()
	answer, err := redis.Int64(b.try(s))
	require.NoError(b, err)
	return answer
}

// setUp brings the key into a state.
func (b *scriptBench) setUp(steps []scripted) {
	b.Helper()
	b.do("DEL", b.key)
	for _, s := range steps {
		require.Equal(b, int64(answerOurs), b.run(s), "set up")
	}
}

// keyState is what the key holds, and what is left of its expiry: -2 when there is no key, -1 when it would stay for ever.
type keyState struct {
	content any
	ttl     time.Duration
}

func (b *scriptBench) state() keyState {
	b.Helper()
	reply, err := redis.Values(b.do("EVAL", snapshotSource, 1, b.key), nil)
	require.NoError(b, err)
	s := keyState{ttl: time.Duration(reply[0].(int64))}
	if s.ttl >= 0 {
		s.ttl *= time.Millisecond
	}
	switch content := reply[1].(type) {
	case []byte:
		s.content = string(content)
	case []any:
		s.content, err = redis.StringMap(content, nil)
		require.NoError(b, err)
	}
	return s
}

// snapshotSource returns what is left of the expiry, and a string as it is, a hash as a list and anything else as a dump.
const snapshotSource = `
local kind, content = redis.call('TYPE', KEYS[1]).ok, false
if kind == 'string' then
  content = redis.call('GET', KEYS[1])
elseif kind == 'hash' then
  content = redis.call('HGETALL', KEYS[1])
elseif kind ~= 'none' then
  content = redis.call('DUMP', KEYS[1])
end
return {redis.call('PTTL', KEYS[1]), content}`

// requireSame checks that nothing happened but that time went by.
func requireSame(t testing.TB, before, after keyState) {
	t.Helper()
	require.Equal(t, before.content, after.content)
	requireExpiry(t, before.ttl, after.ttl)
}

func requireExpiry(t testing.TB, want, got time.Duration) {
	t.Helper()
	if want < 0 {
		require.Equal(t, want, got, "expiry")
		return
	}
	require.LessOrEqual(t, got, want, "expiry")
	require.Greater(t, got, want-scriptSlack, "expiry")
}

// Of the scripts' tests: a lease, one that is longer, and the time that a test may take.
const (
	scriptLease = 20 * time.Second
	longLease   = 60 * time.Second
	scriptKeep  = 5 * time.Second
	scriptSlack = 4 * time.Second
)

// The holds of a plain lock: two of ours and another's.
const (
	plain1 = "relock/1|p|h1|c1|host|1|label|1"
	plain2 = "relock/1|p|h2|c1|host|1|label|2"
	plain3 = "relock/1|p|h3|c2|host|2|label|3"
)

func acquireOf(value, earlier string, lease time.Duration) scripted {
	return scripted{script: acquireScript, args: []any{value, earlier, lease.Milliseconds()}}
}

func renewOf(value string, lease time.Duration) scripted {
	return scripted{script: renewScript, args: []any{value, lease.Milliseconds()}}
}

func releaseOf(value string, keep time.Duration) scripted {
	return scripted{script: releaseScript, args: []any{value, keep.Milliseconds(), keptValue(value)}}
}

// The owners of a reentrant lock, and their holds: two of ours and another's.
const (
	ownerUs, ownerThem  = "c1:g:1", "c2:g:1"
	hold1, hold2, hold3 = "h1", "h2", "h3"
)

func reentrantAcquireOf(owner, hold string, lease time.Duration) scripted {
	return scripted{script: reentrantAcquireScript, args: []any{owner, hold, lease.Milliseconds(), "info"}}
}

func enterOf(hold string, count, seq int, lease time.Duration) scripted {
	return scripted{script: reentrantEnterScript, args: []any{ownerUs, hold, count, seq, lease.Milliseconds()}}
}

func reentrantRenewOf(hold string, lease time.Duration) scripted {
	return scripted{script: reentrantRenewScript, args: []any{hold, lease.Milliseconds()}}
}

func reentrantReleaseOf(hold string, count, seq int, keep time.Duration) scripted {
	return scripted{script: reentrantReleaseScript, args: []any{ownerUs, hold, count, seq, keep.Milliseconds()}}
}

// andThen returns the steps and more.
func andThen(steps []scripted, more ...scripted) []scripted {
	return append(append([]scripted(nil), steps...), more...)
}

// The states of a key. Each reentrant change has the number that the owner would give it.
var (
	noKey     []scripted
	plainHeld = []scripted{acquireOf(plain1, "", scriptLease)}
	plainNext = andThen(plainHeld, releaseOf(plain1, 0), acquireOf(plain2, "", scriptLease))
	plainTook = andThen(plainHeld, releaseOf(plain1, 0), acquireOf(plain3, "", scriptLease))
	plainKept = andThen(plainHeld, releaseOf(plain1, scriptKeep))

	heldOnce  = []scripted{reentrantAcquireOf(ownerUs, hold1, scriptLease)}
	heldTwice = andThen(heldOnce, enterOf(hold1, 2, 2, scriptLease))
	heldThree = andThen(heldTwice, enterOf(hold1, 3, 3, scriptLease))
	heldBack  = andThen(heldTwice, reentrantReleaseOf(hold1, 1, 3, 0))
	heldAgain = andThen(heldBack, enterOf(hold1, 2, 4, scriptLease))
	heldNext  = andThen(heldOnce, reentrantReleaseOf(hold1, 0, 2, 0), reentrantAcquireOf(ownerUs, hold2, scriptLease))
	heldNext2 = andThen(heldNext, enterOf(hold2, 2, 2, scriptLease))
	heldOther = andThen(heldOnce, reentrantReleaseOf(hold1, 0, 2, 0), reentrantAcquireOf(ownerThem, hold3, scriptLease))
	heldKept  = andThen(heldOnce, reentrantReleaseOf(hold1, 0, 2, scriptKeep))
)

// A copy that comes when its time is over changes nothing, but for an expiry that it may lengthen where the hold is still the same.
func TestLateCopiesOfScripts(t *testing.T) {
	s := redistest.Shared(t)
	for _, tt := range []struct {
		name   string
		state  []scripted
		late   scripted
		answer int64
		longer bool // the expiry becomes longLease
	}{
		{"acquire, held", plainHeld, acquireOf(plain1, "", longLease), answerOurs, true},
		{"acquire shorter, held", plainHeld, acquireOf(plain1, "", time.Second), answerOurs, false},
		{"acquire, our next hold", plainNext, acquireOf(plain1, "", longLease), answerOther, false},
		{"acquire, another's hold", plainTook, acquireOf(plain1, "", longLease), answerOther, false},
		{"acquire, kept", plainKept, acquireOf(plain1, "", longLease), answerOther, false},
		{"acquire with earlier value, our next hold", plainNext, acquireOf(plain3, plain1, longLease), answerOther, false},
		{"acquire with earlier value, another's hold", plainTook, acquireOf(plain2, plain1, longLease), answerOther, false},
		{"acquire with earlier value, that is kept", plainKept, acquireOf(plain2, plain1, longLease), answerOther, false},
		{"acquire with earlier value, held", plainHeld, acquireOf(plain1, plain2, longLease), answerOurs, true},

		{"renew, held", plainHeld, renewOf(plain1, longLease), answerOurs, true},
		{"renew shorter, held", plainHeld, renewOf(plain1, time.Second), answerOurs, false},
		{"renew, released", noKey, renewOf(plain1, longLease), answerOther, false},
		{"renew, our next hold", plainNext, renewOf(plain1, longLease), answerOther, false},
		{"renew, another's hold", plainTook, renewOf(plain1, longLease), answerOther, false},
		{"renew, kept", plainKept, renewOf(plain1, longLease), answerOther, false},

		{"release, released", noKey, releaseOf(plain1, 0), answerOther, false},
		{"release, our next hold", plainNext, releaseOf(plain1, 0), answerOther, false},
		{"release, another's hold", plainTook, releaseOf(plain1, 0), answerOther, false},
		{"release and keep, released", noKey, releaseOf(plain1, longLease), answerOther, false},
		{"release and keep, our next hold", plainNext, releaseOf(plain1, time.Second), answerOther, false},
		{"release and keep, another's hold", plainTook, releaseOf(plain1, time.Second), answerOther, false},
		{"release and keep, kept", plainKept, releaseOf(plain1, time.Second), answerKept, false},
		{"release and keep longer, kept", plainKept, releaseOf(plain1, longLease), answerKept, false},

		{"reentrant acquire, held", heldOnce, reentrantAcquireOf(ownerUs, hold1, longLease), answerOurs, true},
		{"reentrant acquire shorter, held", heldOnce, reentrantAcquireOf(ownerUs, hold1, time.Second), answerOurs, false},
		{"reentrant acquire, two levels", heldTwice, reentrantAcquireOf(ownerUs, hold1, longLease), answerOurs, true},
		{"reentrant acquire, our next hold", heldNext, reentrantAcquireOf(ownerUs, hold1, longLease), answerOther, false},
		{"reentrant acquire, our next hold of two levels", heldNext2, reentrantAcquireOf(ownerUs, hold1, longLease), answerOther, false},
		{"reentrant acquire, another's hold", heldOther, reentrantAcquireOf(ownerUs, hold1, longLease), answerOther, false},
		{"reentrant acquire, kept", heldKept, reentrantAcquireOf(ownerUs, hold1, longLease), answerOther, false},

		{"enter, done", heldTwice, enterOf(hold1, 2, 2, longLease), answerOurs, true},
		{"enter shorter, done", heldTwice, enterOf(hold1, 2, 2, time.Second), answerOurs, false},
		{"enter, left again", heldBack, enterOf(hold1, 2, 2, longLease), answerOurs, false},
		{"enter, done and a third level", heldThree, enterOf(hold1, 2, 2, longLease), answerOurs, false},
		{"enter, released", noKey, enterOf(hold1, 2, 2, longLease), answerOther, false},
		{"enter, our next hold", heldNext, enterOf(hold1, 2, 2, longLease), answerOther, false},
		{"enter with a high number, our next hold", heldNext, enterOf(hold1, 2, 99, longLease), answerOther, false},
		{"enter, another's hold", heldOther, enterOf(hold1, 2, 2, longLease), answerOther, false},
		{"enter, kept", heldKept, enterOf(hold1, 2, 3, longLease), answerOther, false},

		{"reentrant renew, held", heldTwice, reentrantRenewOf(hold1, longLease), answerOurs, true},
		{"reentrant renew shorter, held", heldTwice, reentrantRenewOf(hold1, time.Second), answerOurs, false},
		{"reentrant renew, released", noKey, reentrantRenewOf(hold1, longLease), answerOther, false},
		{"reentrant renew, our next hold", heldNext, reentrantRenewOf(hold1, longLease), answerOther, false},
		{"reentrant renew, another's hold", heldOther, reentrantRenewOf(hold1, longLease), answerOther, false},
		{"reentrant renew, kept", heldKept, reentrantRenewOf(hold1, longLease), answerOther, false},

		{"inner release, done", heldBack, reentrantReleaseOf(hold1, 1, 3, 0), answerOurs, false},
		{"inner release, entered again", heldAgain, reentrantReleaseOf(hold1, 1, 3, 0), answerOurs, false},
		{"inner release, released", noKey, reentrantReleaseOf(hold1, 1, 3, 0), answerOther, false},
		{"inner release, our next hold of two levels", heldNext2, reentrantReleaseOf(hold1, 1, 99, 0), answerOther, false},
		{"inner release, another's hold", heldOther, reentrantReleaseOf(hold1, 1, 3, 0), answerOther, false},
		{"inner release, kept", heldKept, reentrantReleaseOf(hold1, 1, 3, 0), answerKept, false},
		{"last release, released", noKey, reentrantReleaseOf(hold1, 0, 2, 0), answerOther, false},
		{"last release, our next hold", heldNext, reentrantReleaseOf(hold1, 0, 2, 0), answerOther, false},
		{"last release, our next hold of two levels", heldNext2, reentrantReleaseOf(hold1, 0, 99, 0), answerOther, false},
		{"last release, another's hold", heldOther, reentrantReleaseOf(hold1, 0, 2, 0), answerOther, false},
		{"last release and keep, our next hold", heldNext, reentrantReleaseOf(hold1, 0, 2, time.Second), answerOther, false},
		{"last release and keep, another's hold", heldOther, reentrantReleaseOf(hold1, 0, 2, time.Second), answerOther, false},
		{"last release and keep, kept", heldKept, reentrantReleaseOf(hold1, 0, 2, time.Second), answerKept, false},
		{"last release and keep longer, kept", heldKept, reentrantReleaseOf(hold1, 0, 2, longLease), answerKept, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newScriptBench(t, s)
			b.setUp(tt.state)
			want := b.state()
			if tt.longer {
				want.ttl = longLease
			}
			for range 2 {
				require.Equal(t, tt.answer, b.run(tt.late))
				requireSame(t, want, b.state())
			}
		})
	}
}

// A script that is sent twice does what it does once.
func TestScriptsSentTwice(t *testing.T) {
	hash := func(hold string, count, seq string) map[string]string {
		fields := map[string]string{"hold": hold, "seq": "#" + seq, "info": "info"}
		if count != "" {
			fields[ownerUs] = count
		}
		return fields
	}
	s := redistest.Shared(t)
	for _, tt := range []struct {
		name    string
		state   []scripted
		script  scripted
		answers [2]int64
		want    keyState
	}{
		{"acquire", noKey, acquireOf(plain1, "", longLease), [2]int64{1, 1}, keyState{plain1, longLease}},
		{"acquire with earlier value", plainHeld, acquireOf(plain2, plain1, longLease), [2]int64{1, 1}, keyState{plain2, longLease}},
		{"renew", plainHeld, renewOf(plain1, longLease), [2]int64{1, 1}, keyState{plain1, longLease}},
		{"release", plainHeld, releaseOf(plain1, 0), [2]int64{1, 0}, keyState{nil, -2}},
		{"release and keep", plainHeld, releaseOf(plain1, scriptKeep), [2]int64{1, 2}, keyState{keptValue(plain1), scriptKeep}},
		{"release, kept until now", plainKept, releaseOf(plain1, 0), [2]int64{2, 0}, keyState{nil, -2}},
		{"reentrant acquire", noKey, reentrantAcquireOf(ownerUs, hold1, longLease), [2]int64{1, 1}, keyState{hash(hold1, "1", "1"), longLease}},
		{"enter", heldOnce, enterOf(hold1, 2, 2, longLease), [2]int64{1, 1}, keyState{hash(hold1, "2", "2"), longLease}},
		{"enter, third level", heldTwice, enterOf(hold1, 3, 3, longLease), [2]int64{1, 1}, keyState{hash(hold1, "3", "3"), longLease}},
		{"reentrant renew", heldTwice, reentrantRenewOf(hold1, longLease), [2]int64{1, 1}, keyState{hash(hold1, "2", "2"), longLease}},
		{"inner release", heldTwice, reentrantReleaseOf(hold1, 1, 3, 0), [2]int64{1, 1}, keyState{hash(hold1, "1", "3"), scriptLease}},
		{"last release", heldOnce, reentrantReleaseOf(hold1, 0, 2, 0), [2]int64{1, 0}, keyState{nil, -2}},
		{"last release overtakes the inner one", heldTwice, reentrantReleaseOf(hold1, 0, 4, 0), [2]int64{1, 0}, keyState{nil, -2}},
		{"last release and keep", heldOnce, reentrantReleaseOf(hold1, 0, 2, scriptKeep), [2]int64{1, 2}, keyState{hash("kept:"+hold1, "", "1"), scriptKeep}},
		{"last release, kept until now", heldKept, reentrantReleaseOf(hold1, 0, 2, 0), [2]int64{2, 0}, keyState{nil, -2}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newScriptBench(t, s)
			b.setUp(tt.state)
			for _, answer := range tt.answers {
				require.Equal(t, answer, b.run(tt.script))
				requireSame(t, tt.want, b.state())
			}
		})
	}
}

// Numbers beyond 9 are not compared as text.
func TestChangesAreNumbered(t *testing.T) {
	b := newScriptBench(t, redistest.Shared(t))
	b.setUp(heldTwice)
	for seq := 3; seq <= 200; seq++ {
		require.Equal(t, int64(answerOurs), b.run(enterOf(hold1, seq, seq, scriptLease)))
		require.Equal(t, int64(answerOurs), b.run(enterOf(hold1, 2, seq-1, scriptLease)), "the change before")
		require.Equal(t, int64(answerOurs), b.run(reentrantReleaseOf(hold1, 1, seq-1, 0)), "the change before")
		require.Equal(t, fmt.Sprint(seq), b.state().content.(map[string]string)[ownerUs])
	}
}

// allScripts is a valid call of each, which finds the hold of plainHeld or heldOnce.
func allScripts() map[string]struct {
	call    scripted
	state   []scripted
	numbers map[int]bool // the arguments that are numbers; true where 0 is one too
} {
	type entry = struct {
		call    scripted
		state   []scripted
		numbers map[int]bool
	}
	return map[string]entry{
		"acquire":           {acquireOf(plain1, plain2, longLease), plainHeld, map[int]bool{2: false}},
		"renew":             {renewOf(plain1, longLease), plainHeld, map[int]bool{1: false}},
		"release":           {releaseOf(plain1, longLease), plainHeld, map[int]bool{1: true}},
		"reentrant_acquire": {reentrantAcquireOf(ownerUs, hold1, longLease), heldOnce, map[int]bool{2: false}},
		"reentrant_enter":   {enterOf(hold1, 2, 2, longLease), heldOnce, map[int]bool{2: false, 3: false, 4: false}},
		"reentrant_renew":   {reentrantRenewOf(hold1, longLease), heldOnce, map[int]bool{1: false}},
		"reentrant_release": {reentrantReleaseOf(hold1, 0, 2, longLease), heldOnce, map[int]bool{2: true, 3: false, 4: true}},
	}
}

// A bad argument is refused before anything is written, on a key that is held and on one that is absent.
func TestScriptsRefuseBadArguments(t *testing.T) {
	s := redistest.Shared(t)
	badNumbers := []any{"", "-1", "1.5", "007000", "1e3", "nan", "inf", "0x10", " 20", "20 ", "20\n", "20\x00", strings.Repeat("9", 20), "text"}
	for name, script := range allScripts() {
		t.Run(name, func(t *testing.T) {
			b := newScriptBench(t, s)
			refused := func(what string, args []any) {
				t.Helper()
				for _, steps := range [][]scripted{script.state, noKey} {
					b.setUp(steps)
					before, dump := b.state(), b.do("DUMP", b.key)
					_, err := b.try(scripted{script: script.call.script, args: args})
					var line redis.Error
					require.ErrorAs(t, err, &line, what)
					require.Equal(t, dump, b.do("DUMP", b.key), what)
					requireSame(t, before, b.state())
				}
			}
			for i := range script.call.args {
				refused(fmt.Sprintf("%d arguments", i), script.call.args[:i])
				zero, number := script.numbers[i]
				bad := badNumbers
				switch {
				case !number:
					bad = []any{""}
				case !zero:
					bad = append([]any{"0", "1"}, badNumbers...)
				}
				if (name == "acquire" && i == 1) || (name == "reentrant_acquire" && i == 3) {
					continue // no earlier value, no info
				}
				for _, value := range bad {
					args := append([]any(nil), script.call.args...)
					args[i] = value
					refused(fmt.Sprintf("argument %d is %q", i+1, value), args)
				}
			}
		})
	}
}

// A key that is something else is left alone, also by a release.
func TestScriptsLeaveOtherKeysAlone(t *testing.T) {
	s := redistest.Shared(t)
	foreign := map[string][]any{
		"string":             {"SET", "", "text", "PX", 20_000},
		"empty string":       {"SET", "", "", "PX", 20_000},
		"string for ever":    {"SET", "", "text"},
		"hash":               {"HSET", "", ownerUs, 1},
		"list":               {"RPUSH", "", "a"},
		"set":                {"SADD", "", "a"},
		"sorted set":         {"ZADD", "", 1, hold1},
		"a plain lock":       {"SET", "", plain3, "PX", 20_000},
		"a plain lock, kept": {"SET", "", keptValue(plain3), "PX", 20_000},
		"a reentrant lock":   {"HSET", "", ownerThem, 1, "hold", hold3, "seq", "#1", "info", "info"},
	}
	calls := map[string]scripted{
		"acquire, no earlier value": acquireOf(plain1, "", longLease),
		"release, nothing to keep":  releaseOf(plain1, 0),
		"release, never to be kept": {script: releaseScript, args: []any{plain1, 0, ""}},
		"inner release":             reentrantReleaseOf(hold1, 1, 2, 0),
		"last release":              reentrantReleaseOf(hold1, 0, 2, 0),
	}
	for name, script := range allScripts() {
		calls[name] = script.call
	}
	for name, call := range calls {
		for kind, command := range foreign {
			t.Run(name+"/"+kind, func(t *testing.T) {
				b := newScriptBench(t, s)
				args := append([]any(nil), command[1:]...)
				args[0] = b.key
				b.do(command[0].(string), args...)
				before, dump := b.state(), b.do("DUMP", b.key)
				answer, err := redis.Int64(b.try(call))
				require.Equal(t, dump, b.do("DUMP", b.key))
				requireSame(t, before, b.state())
				if call.script == releaseScript && call.args[2] == "" && err != nil {
					return // a release without a value to keep may be refused
				}
				require.NoError(t, err)
				require.Contains(t, []int64{answerOther, answerAlien}, answer)
			})
		}
	}
}

// --- Through the client.

const (
	answerLimit  = 500 * time.Millisecond // WithCommandTimeout
	cleanWithin  = time.Second            // a message that is lost or late leaves nothing behind for longer
	cellLease    = 3 * time.Second
	cellPatience = 5 * time.Second // for what must happen, at some time
)

// cellRun is a test of its own that mostly waits.
type cellRun struct {
	name string
	run  func(t testing.TB)
}

// together runs cells at the same time, many more than t.Parallel would on a small machine, and reports each as a subtest.
func together(t *testing.T, cells []cellRun) {
	t.Helper()
	slots := make(chan struct{}, 24)
	var group sync.WaitGroup
	defer group.Wait()
	results := make([]*cellT, len(cells))
	for i, cell := range cells {
		result := &cellT{TB: t, name: t.Name() + "/" + cell.name, done: make(chan struct{})}
		results[i] = result
		group.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			result.run(cell.run)
		})
	}
	for i, cell := range cells {
		t.Run(cell.name, func(t *testing.T) {
			<-results[i].done
			for _, failure := range results[i].failures {
				t.Error(failure)
			}
		})
	}
}

// cellT is the testing.TB of a cell, which runs on a goroutine of its own.
type cellT struct {
	testing.TB
	name string
	done chan struct{}

	mu       sync.Mutex
	failures []string
	cleanups []func()
}

func (t *cellT) run(f func(testing.TB)) {
	defer close(t.done)
	defer t.cleanup()
	f(t)
}

func (t *cellT) cleanup() {
	t.mu.Lock()
	cleanups := t.cleanups
	t.mu.Unlock()
	for _, f := range cleanups {
		defer f() // the newest first, and all of them
	}
}

func (t *cellT) Cleanup(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cleanups = append(t.cleanups, f)
}

func (t *cellT) Errorf(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failures = append(t.failures, fmt.Sprintf(format, args...))
}

func (t *cellT) Fatalf(format string, args ...any) {
	t.Errorf(format, args...)
	t.FailNow()
}

func (t *cellT) Fatal(args ...any) { t.Fatalf("%s", fmt.Sprint(args...)) }
func (t *cellT) FailNow()          { runtime.Goexit() }
func (t *cellT) Name() string      { return t.name }
func (t *cellT) Helper()           {}

// cell is one client behind a proxy, and another one that is not.
type cell struct {
	testing.TB
	server        *redistest.Server
	proxy         *faults.Proxy
	client, other *Client
	bench         *scriptBench // of the lock
}

func newCell(t testing.TB, s *redistest.Server, opts ...ClientOption) *cell {
	c := &cell{TB: t, server: s, proxy: faults.Start(t, s.Network, s.Address)}
	behind := &redistest.Server{Network: c.proxy.Network, Address: c.proxy.Address}
	c.client = newTestClient(t, behind, append([]ClientOption{WithCommandTimeout(answerLimit), WithWatchdog(cellLease)}, opts...)...)
	c.other = sibling(t, s, c.client)
	c.bench = newScriptBench(t, s)
	c.bench.key = keyOf(c.client, cellKey)
	return c
}

// newFaultServer runs a server that knows the scripts, so that each request is sent once.
func newFaultServer(t testing.TB) *redistest.Server {
	s := redistest.Start(t)
	for _, script := range []*Script{
		acquireScript, renewScript, releaseScript,
		reentrantAcquireScript, reentrantEnterScript, reentrantRenewScript, reentrantReleaseScript,
	} {
		s.Do(t, "SCRIPT", "LOAD", script.source)
	}
	return s
}

const cellKey = "lock"

func (c *cell) await(done <-chan struct{}, what string) {
	c.Helper()
	select {
	case <-done:
	case <-time.After(cellPatience):
		require.FailNow(c, what)
	}
}

// levels is how many the server has: the count of a reentrant lock, and 1 of a plain one.
func (c *cell) levels() int {
	c.Helper()
	switch content := c.bench.state().content.(type) {
	case string:
		return 1
	case map[string]string:
		for field, value := range content {
			if strings.Contains(field, ":") {
				n, err := redis.Int([]byte(value), nil)
				require.NoError(c, err)
				return n
			}
		}
	}
	return 0
}

// requireLevels waits until the server has as many levels as the client was told.
func (c *cell) requireLevels(told int) {
	c.Helper()
	c.waitFor(cleanWithin, func() bool { return c.levels() == told }, fmt.Sprintf("the server does not come to %d levels", told))
}

// waitFor is eventually, on the goroutine of the test.
func (c *cell) waitFor(limit time.Duration, ok func() bool, what string) {
	c.Helper()
	for deadline := time.Now().Add(limit); !ok(); time.Sleep(time.Millisecond) {
		require.True(c, time.Now().Before(deadline), what)
	}
}

// operation is something that sends one request in which a fault can be.
type operation struct {
	name  string
	match faults.Match
	kind  func(*Client) Mutex
	first bool // it acquires: there is no hold before, and a copy that comes late may make one
	inner int  // levels before
	lease time.Duration
	// run does it, and returns the change of levels that the client was told.
	run func(ctx context.Context, c *cell, lock Mutex, granted bool) int
	cut bool // the SET before it is lost
}

func newPlain(c *Client) Mutex     { return NewRedisLock(cellKey, c) }
func newReentrant(c *Client) Mutex { return NewReentrantLock(cellKey, c) }

func runLock(ctx context.Context, c *cell, lock Mutex, granted bool) int {
	err := lock.TryLock(ctx)
	if granted {
		require.NoError(c, err)
		return 1
	}
	require.Error(c, err)
	require.NotErrorIs(c, err, ErrLockAcquiredByOthers)
	if ctx.Err() != nil {
		require.ErrorIs(c, err, ctx.Err())
	}
	return 0
}

func runUnlock(ctx context.Context, c *cell, lock Mutex, _ bool) int {
	require.NoError(c, lock.Unlock(ctx))
	return -1
}

// runRenew waits until the fault is over and the hold was renewed once more.
func runRenew(_ context.Context, c *cell, lock Mutex, _ bool) int {
	match := faults.Script(renewScript.sha)
	if _, ok := lock.(*ReentrantLock); ok {
		match = faults.Script(reentrantRenewScript.sha)
	}
	require.True(c, c.proxy.Await(match, 2, cellPatience), "the renewal was not repeated")
	return 0
}

var operations = []operation{
	{name: "SET", match: faults.Command("SET"), kind: newPlain, first: true, run: runLock},
	{name: "acquire", match: faults.Script(acquireScript.sha), kind: newPlain, first: true, run: runLock, cut: true},
	{name: "renew", match: faults.Script(renewScript.sha), kind: newPlain, inner: 1, run: runRenew, lease: renewedLease},
	{name: "release", match: faults.Script(releaseScript.sha), kind: newPlain, inner: 1, run: runUnlock},
	{name: "reentrant acquire", match: faults.Script(reentrantAcquireScript.sha), kind: newReentrant, first: true, run: runLock},
	{name: "re-entry", match: faults.Script(reentrantEnterScript.sha), kind: newReentrant, inner: 1, run: runLock},
	{name: "re-entry, third level", match: faults.Script(reentrantEnterScript.sha), kind: newReentrant, inner: 2, run: runLock},
	{name: "reentrant renew", match: faults.Script(reentrantRenewScript.sha), kind: newReentrant, inner: 2, run: runRenew, lease: renewedLease},
	{name: "inner release", match: faults.Script(reentrantReleaseScript.sha), kind: newReentrant, inner: 2, run: runUnlock},
	{name: "last release", match: faults.Script(reentrantReleaseScript.sha), kind: newReentrant, inner: 1, run: runUnlock},
}

// renewedLease is short, as a cell waits for a renewal, and leaves time for a second try.
const renewedLease = 1800 * time.Millisecond

// fault is what happens to the request.
type fault struct {
	name    string
	action  faults.Action
	granted bool // an acquiring call succeeds all the same
	leaves  bool // the caller's context ends when the proxy has the request
	same    bool // the lock is taken again by the same owner, else by another
	copy    bool // of a request that was answered

	// When what was held back comes: at once, after the last release, or else during the next hold.
	early, released bool
}

var faultKinds = []fault{
	{name: "request dropped", action: faults.DropRequest},
	{name: "answer dropped", action: faults.DropAnswer},
	{name: "cut before", action: faults.CutBefore, granted: true},
	{name: "cut after", action: faults.CutAfter, granted: true},
	{name: "answer after the end of ctx", action: faults.Delay(answerLimit - 50*time.Millisecond), leaves: true},
	{name: "request after the end of ctx", action: faults.DelayRequest(answerLimit - 50*time.Millisecond), leaves: true},
	{name: "answer after the command timeout", action: faults.Delay(3 * answerLimit / 2)},
	{name: "request after the command timeout", action: faults.DelayRequest(3 * answerLimit / 2), same: true},
	{name: "doubled", action: faults.Double, granted: true},
	{name: "error line", action: faults.ErrorLine("LOADING Redis is loading the dataset in memory")},
	{name: "executed, error line", action: faults.ExecuteThenError("LOADING Redis is loading the dataset in memory")},
	{name: "late", action: faults.HoldOnly, early: true},
	{name: "late, to a released lock", action: faults.HoldOnly, released: true},
	{name: "late, to our next hold", action: faults.HoldOnly, same: true},
	{name: "late, to another's hold", action: faults.HoldOnly},
	{name: "cut and late, to a released lock", action: faults.HoldAndCut, granted: true, released: true},
	{name: "cut and late, to our next hold", action: faults.HoldAndCut, granted: true, same: true},
	{name: "cut and late, to another's hold", action: faults.HoldAndCut, granted: true},
	{name: "late copy, to our next hold", action: faults.Hold, granted: true, copy: true, same: true},
	{name: "late copy, to another's hold", action: faults.Hold, granted: true, copy: true},
}

// After each fault in each operation the server has what the client was told, the lock is given back within a second, and the next
// hold is not touched.
func TestOneFaultInEachOperation(t *testing.T) {
	s := newFaultServer(t)
	var cells []cellRun
	for _, op := range operations {
		for _, f := range faultKinds {
			if op.first && f.copy {
				continue // a copy of an answered acquire makes a hold of its own, which nothing can tell from a wanted one
			}
			cells = append(cells, cellRun{op.name + "/" + f.name, func(t testing.TB) { newCell(t, s).withFault(op, f) }})
		}
	}
	together(t, cells)
}

func (c *cell) withFault(op operation, f fault) {
	if op.lease > 0 {
		c.client.config.locks.watchdog = op.lease
	}
	lock := op.kind(c.client)
	levels := op.inner
	for range op.inner {
		require.NoError(c, lock.Lock(c.Context()))
	}
	if op.cut {
		c.proxy.On(faults.Command("SET"), 1, faults.CutBefore)
	}
	done := c.proxy.On(op.match, 1, f.action)
	ctx, cancel := context.WithCancel(c.Context())
	defer cancel()
	if f.leaves {
		n := c.proxy.Count(op.match) + 1
		async(c, func() error {
			c.proxy.Await(op.match, n, cellPatience)
			cancel()
			return nil
		})
	}
	levels += op.run(ctx, c, lock, f.granted)
	c.await(done, "the fault did not happen")
	if f.early {
		require.Len(c, c.proxy.Release(), 1)
	}
	c.requireLevels(levels)
	for ; levels > 0; levels-- {
		require.Equal(c, levels, c.levels())
		require.NoError(c, lock.Unlock(c.Context()))
	}
	c.requireLevels(0)
	if f.released {
		require.Len(c, c.proxy.Release(), 1)
		c.requireLevels(0)
	}
	c.next(op, f)
}

// next takes the lock again, and sees that nothing of the hold before touches it.
func (c *cell) next(op operation, f fault) {
	client := c.other
	if f.same {
		client = c.client
	}
	lock := op.kind(client)
	require.NoError(c, lock.Lock(c.Context()))
	before := c.bench.state()
	late := c.proxy.Release()
	for _, answer := range late {
		require.Contains(c, []string{":0", "$-1"}, answer, "the late copy found something of its own")
	}
	after := c.bench.state()
	require.Equal(c, before.content, after.content)
	require.Greater(c, after.ttl, before.ttl-time.Second, "shortened")
	if op.first {
		// The cleaner may be at work still: a release of its own more does not matter either.
		c.proxy.Await(releasesOf(op), c.proxy.Count(releasesOf(op))+1, answerLimit)
		require.Equal(c, before.content, c.bench.state().content)
	}
	require.NoError(c, lock.Unlock(c.Context()))
	requireFree(c, c.server, c.client, cellKey)
}

func releasesOf(op operation) faults.Match {
	if _, ok := op.kind(nil).(*ReentrantLock); ok {
		return faults.Script(reentrantReleaseScript.sha)
	}
	return faults.Script(releaseScript.sha)
}

// acquirers are the requests that make a hold.
func acquirers() []operation {
	var all []operation
	for _, op := range operations {
		if op.first {
			all = append(all, op)
		}
	}
	return all
}

// A caller that leaves while its request is under way leaves nothing behind: another gets the lock within a second, not after the lease.
func TestAbandonedAcquireIsFreedWithinASecond(t *testing.T) {
	s := newFaultServer(t)
	var cells []cellRun
	for _, op := range acquirers() {
		for _, f := range []struct {
			name     string
			action   faults.Action
			releases faults.Action // what becomes of the first clean-up
			messages int           // that are lost or late, each for at most a second
		}{
			{"answer dropped", faults.DropAnswer, faults.Delay(0), 1},
			{"answer dropped, clean-up dropped", faults.DropAnswer, faults.DropRequest, 2},
			{"answer dropped, clean-up not answered", faults.DropAnswer, faults.DropAnswer, 2},
			{"answer dropped, clean-up refused", faults.DropAnswer, faults.ErrorLine("LOADING soon"), 1},
			{"answer comes later", faults.Delay(answerLimit), faults.Delay(0), 1},
			{"answer comes later, clean-up cut", faults.Delay(answerLimit), faults.CutBefore, 1},
		} {
			cells = append(cells, cellRun{op.name + "/" + f.name, func(t testing.TB) {
				c := newCell(t, s, WithWatchdog(30*time.Second), WithCommandTimeout(defaultCommandTimeout))
				if op.cut {
					c.proxy.On(faults.Command("SET"), 1, faults.CutBefore)
				}
				c.proxy.On(op.match, 1, f.action)
				c.proxy.On(releasesOf(op), 1, f.releases)
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				result := async(t, func() error { return op.kind(c.client).Lock(ctx) })
				c.waitFor(cellPatience, func() bool { return c.levels() == 1 }, "not executed")
				why := errors.New("why")
				cancel(why)
				start := time.Now()
				err := resultWithin(t, result, cleanWithin/2)
				require.ErrorIs(t, err, context.Canceled)
				require.ErrorIs(t, err, why)

				next, stop := context.WithTimeout(t.Context(), cellPatience)
				defer stop()
				require.NoError(t, newWaiting(op, c.other).Lock(next))
				require.Less(t, time.Since(start), time.Duration(f.messages)*cleanWithin)
			}})
		}
	}
	together(t, cells)
}

// newWaiting is a lock of the operation's kind that waits.
func newWaiting(op operation, c *Client) Mutex {
	if _, ok := op.kind(nil).(*ReentrantLock); ok {
		return NewReentrantLock(cellKey, c, WithBlock())
	}
	return NewRedisLock(cellKey, c, WithBlock())
}

// A clean-up that overtakes the request which it is for, and is answered after it, is not the last one.
func TestCleanUpOvertakesTheRequest(t *testing.T) {
	s := newFaultServer(t)
	var cells []cellRun
	for _, op := range acquirers() {
		cells = append(cells, cellRun{op.name, func(t testing.TB) {
			c := newCell(t, s, WithWatchdog(30*time.Second), WithCommandTimeout(defaultCommandTimeout))
			if op.cut {
				c.proxy.On(faults.Command("SET"), 1, faults.CutBefore)
			}
			executed := c.proxy.On(op.match, 1, faults.DelayRequest(150*time.Millisecond))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			result := async(t, func() error { return op.kind(c.client).Lock(ctx) })
			require.True(t, c.proxy.Await(op.match, 1, cellPatience))
			overtakes := c.proxy.On(releasesOf(op), 1, faults.Delay(300*time.Millisecond))
			cancel()
			require.ErrorIs(t, resultWithin(t, result, cellPatience), context.Canceled)
			c.await(executed, "not executed")
			c.requireLevels(0)
			c.await(overtakes, "no clean-up")
			c.requireLevels(0)
		}})
	}
	together(t, cells)
}

// A request that comes after its caller has left, and after the first clean-up, holds the key for less than a second: right after
// the call, and as late as one lease after it.
func TestLateAcquireIsFreedWithinASecond(t *testing.T) {
	const lease = 2 * time.Second
	s := newFaultServer(t)
	var cells []cellRun
	for _, op := range acquirers() {
		for _, late := range []time.Duration{0, lease / 2, lease - lease/5, lease - lease/20} {
			cells = append(cells, cellRun{fmt.Sprintf("%s/%v", op.name, late), func(t testing.TB) {
				c := newCell(t, s, WithWatchdog(lease), WithCommandTimeout(lease))
				if op.cut {
					c.proxy.On(faults.Command("SET"), 1, faults.CutBefore)
				}
				c.proxy.On(op.match, 1, faults.HoldOnly)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				result := async(t, func() error { return op.kind(c.client).Lock(ctx) })
				require.True(t, c.proxy.Await(op.match, 1, cellPatience))
				sent := time.Now()
				cancel()
				require.ErrorIs(t, resultWithin(t, result, cellPatience), context.Canceled)
				require.True(t, c.proxy.Await(releasesOf(op), 1, cellPatience), "no clean-up")
				requireFree(t, s, c.client, cellKey)

				time.Sleep(late - time.Since(sent)) // the lateness is what is tested
				answers := c.proxy.Release()
				require.Len(t, answers, 1)
				require.Contains(t, []string{"+OK", ":1"}, answers[0], "the late request did not take the key")
				c.requireLevels(0)
			}})
		}
	}
	together(t, cells)
}

// A renewal that comes after the Unlock revives nothing.
func TestRenewalAfterUnlock(t *testing.T) {
	s := newFaultServer(t)
	var cells []cellRun
	for _, op := range operations {
		if op.lease == 0 {
			continue
		}
		cells = append(cells, cellRun{op.name, func(t testing.TB) {
			c := newCell(t, s, WithWatchdog(300*time.Millisecond))
			lock := op.kind(c.client)
			require.NoError(t, lock.Lock(t.Context()))
			done := c.proxy.On(op.match, 1, faults.HoldOnly)
			c.await(done, "not renewed")
			require.NoError(t, lock.Unlock(t.Context()))
			requireFree(t, s, c.client, cellKey)
			require.Equal(t, []string{":0"}, c.proxy.Release())
			requireFree(t, s, c.client, cellKey)
		}})
	}
	together(t, cells)
}

// Renewals that are executed but never answered do not lengthen the belief, although the key lives on.
func TestUnansweredRenewalsEndInLoss(t *testing.T) {
	const lease = 600 * time.Millisecond
	s := newFaultServer(t)
	var cells []cellRun
	for _, op := range operations {
		if op.lease == 0 {
			continue
		}
		cells = append(cells, cellRun{op.name, func(t testing.TB) {
			c := newCell(t, s, WithWatchdog(lease))
			c.proxy.On(op.match, faults.Every, faults.DropAnswer)
			start := time.Now()
			var h Hold
			var err error
			if lock, ok := op.kind(c.client).(*ReentrantLock); ok {
				h, err = lock.Acquire(t.Context())
			} else {
				h, err = NewRedisLock(cellKey, c.client).Acquire(t.Context())
			}
			require.NoError(t, err)
			until := h.ValidUntil()
			c.proxy.Await(op.match, 2, lease)
			if now := h.ValidUntil(); !now.IsZero() {
				require.Equal(t, until, now, "believed an unanswered renewal")
			}
			require.ErrorIs(t, endedWithin(t, h.Context(), cellPatience), ErrLockLost)
			require.GreaterOrEqual(t, time.Since(start), lease-drift(lease))
			require.ErrorIs(t, h.Err(), ErrLockLost)
			c.requireLevels(0) // lost, so given back
			require.ErrorIs(t, h.Unlock(t.Context()), ErrLockLost)
		}})
	}
	together(t, cells)
}

// A context that has ended does not keep an Unlock from giving the key back.
func TestUnlockAfterTheEndOfContext(t *testing.T) {
	s := newFaultServer(t)
	var cells []cellRun
	for _, op := range operations {
		if op.inner == 0 || op.lease > 0 || op.name == "re-entry" || op.name == "re-entry, third level" {
			continue
		}
		cells = append(cells, cellRun{op.name, func(t testing.TB) {
			c := newCell(t, s)
			lock := op.kind(c.client)
			ctx, cancel := context.WithCancel(t.Context())
			for range op.inner {
				require.NoError(t, lock.Lock(ctx))
			}
			cancel()
			for left := op.inner - 1; left >= 0; left-- {
				require.NoError(t, lock.Unlock(ctx))
				require.Equal(t, left, c.levels())
			}
			require.ErrorIs(t, lock.Unlock(ctx), ErrNotHeld)
		}})
	}
	together(t, cells)
}

// With requests doubled, cut the first time, or with copies that come much later, levels are counted once, up and down.
func TestLevelsCountOnce(t *testing.T) {
	const depth, steps = 5, 150
	s := newFaultServer(t)
	nth := func(n int) faults.Match {
		count := 0
		return func([]string) bool {
			count++
			return count%n == 0
		}
	}
	firstSight := func() faults.Match {
		seen := map[string]bool{}
		return func(args []string) bool {
			text := strings.Join(args, " ")
			defer func() { seen[text] = true }()
			return !seen[text]
		}
	}
	var cells []cellRun
	for _, f := range []struct {
		name   string
		match  faults.Match
		action faults.Action
	}{
		{"doubled", faults.Any, faults.Double},
		{"every third doubled", nth(3), faults.Double},
		{"cut before, sent again", firstSight(), faults.CutBefore},
		{"cut after, sent again", firstSight(), faults.CutAfter},
		{"late copy of each", faults.Any, faults.Hold},
		{"late copy of every third", nth(3), faults.Hold},
	} {
		cells = append(cells, cellRun{f.name, func(t testing.TB) {
			c := newCell(t, s, WithCommandTimeout(defaultCommandTimeout))
			c.proxy.On(func(args []string) bool {
				acquire := faults.Script(reentrantAcquireScript.sha)(args)
				return faults.Command("EVALSHA")(args) && f.match(args) && (!acquire || f.action != faults.Hold)
			}, faults.Every, f.action)
			lock := newReentrant(c.client)
			random := rand.New(rand.NewPCG(1, 2))
			level := 0
			for step := 0; step < steps || level > 0; step++ {
				if level == 0 || (level < depth && step < steps && random.IntN(2) == 0) {
					require.NoError(t, lock.Lock(t.Context()))
					level++
				} else {
					require.NoError(t, lock.Unlock(t.Context()))
					level--
				}
				require.Equal(t, level, c.levels())
				if step%7 == 0 {
					c.proxy.Release()
					require.Equal(t, level, c.levels(), "after late copies")
				}
			}
			c.proxy.Release()
			c.requireLevels(0)
		}})
	}
	together(t, cells)
}

// Contexts that end right when a lock is granted leave neither a key nor a goroutine behind.
func TestContextsThatEndAtTheGrant(t *testing.T) {
	const goroutines, rounds = 3, 1000
	before := goleak.IgnoreCurrent()
	t.Run("rounds", func(t *testing.T) {
		s := newFaultServer(t)
		c := newCell(t, s, WithCommandTimeout(defaultCommandTimeout))
		slow := func() bool { return rand.IntN(10) == 0 }
		c.proxy.On(func([]string) bool { return slow() }, faults.Every, faults.Delay(time.Millisecond))
		c.proxy.On(func([]string) bool { return slow() }, faults.Every, faults.DelayRequest(time.Millisecond))
		var group sync.WaitGroup
		var mu sync.Mutex
		results := map[string]int{}
		for range goroutines {
			group.Go(func() {
				for range rounds {
					result := c.roundWithEndingContext(rand.IntN(4 * goroutines))
					mu.Lock()
					results[result]++
					mu.Unlock()
				}
			})
		}
		group.Wait()
		t.Logf("%v", results)
		for _, result := range []string{"granted", "ended", "held by others"} {
			require.NotZero(t, results[result], result)
			delete(results, result)
		}
		require.Empty(t, results)
		c.waitFor(cleanWithin, func() bool {
			keys, err := redis.Strings(s.Do(t, "KEYS", "*"), nil)
			return err == nil && len(keys) == 0
		}, "keys are left")
	})
	goleak.VerifyNone(t, before)
}

// roundWithEndingContext takes a lock with a context that ends at a random moment, gives it back, and says what came of it.
func (c *cell) roundWithEndingContext(name int) string {
	lock := Mutex(NewRedisLock(fmt.Sprint("plain", name), c.client, WithBlock(), WithPollInterval(10*time.Millisecond)))
	if rand.IntN(2) == 0 {
		lock = NewReentrantLock(fmt.Sprint("reentrant", name), c.client)
	}
	delay := rand.N(3 * time.Millisecond)
	ctx, cancel := context.WithTimeout(c.Context(), delay)
	if rand.IntN(2) == 0 {
		ctx, cancel = context.WithCancel(c.Context())
		defer time.AfterFunc(delay, cancel).Stop()
	}
	defer cancel()
	take := lock.Lock
	if rand.IntN(2) == 0 {
		take = lock.TryLock
	}
	err := take(ctx)
	switch {
	case err == nil:
		if err := lock.Unlock(ctx); err != nil {
			return "unlock: " + err.Error()
		}
		return "granted"
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return "ended"
	case errors.Is(err, ErrLockAcquiredByOthers):
		return "held by others"
	}
	return "lock: " + err.Error()
}

// A deadline that comes while a connection is dialled is the end of the context, not a failure of the network.
func TestDeadlineWhileDialling(t *testing.T) {
	c := newCell(t, newFaultServer(t), WithMaxIdle(0)) // dials for each call
	for i := range 1000 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%500)*time.Microsecond)
		err := NewRedisLock(fmt.Sprint(i), c.client, WithExpiry(cellLease)).TryLock(ctx)
		cancel()
		if err != nil {
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
	}
}
