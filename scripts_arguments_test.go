package relock

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
)

// allScripts is a valid call of each, which finds the hold of plainHeld or heldOnce.
func allScripts() map[string]struct {
	call    script.Call
	state   []script.Call
	numbers map[int]bool // the arguments that are numbers; true where 0 is one too
} {
	type entry = struct {
		call    script.Call
		state   []script.Call
		numbers map[int]bool
	}
	return map[string]entry{
		"acquire":               {acquireOf(plain1, plain2, longLease), plainHeld, map[int]bool{2: false}},
		"renew":                 {renewOf(plain1, longLease), plainHeld, map[int]bool{1: false}},
		"release":               {releaseOf(plain1, longLease), plainHeld, map[int]bool{1: true}},
		"reentrant_acquire":     {reentrantAcquireOf(ownerUs, hold1, longLease), heldOnce, map[int]bool{2: false}},
		"reentrant_enter":       {enterOf(hold1, 2, 2, longLease), heldOnce, map[int]bool{2: false, 3: false, 4: false}},
		"reentrant_renew":       {reentrantRenewOf(hold1, longLease), heldOnce, map[int]bool{1: false}},
		"reentrant_release":     {reentrantReleaseOf(hold1, 0, 2, longLease), heldOnce, map[int]bool{2: true, 3: false, 4: true}},
		"last release, at once": {reentrantReleaseOf(hold1, 0, 2, 0), heldOnce, map[int]bool{2: true, 3: false, 4: true}},
		"reentrant_transfer":    {transferOf(hold1, hold2, longLease), heldOnce, map[int]bool{4: false}},
	}
}

// A bad argument is refused before anything is written, on a key that is held and on one that is absent.
func TestScriptsRefuseBadArguments(t *testing.T) {
	s := redistest.Shared(t)
	badNumbers := []any{"", "-1", "1.5", "007000", "1e3", "nan", "inf", "0x10", " 20", "20 ", "20\n", "20\x00", strings.Repeat("9", 20), "text"}
	for name, one := range allScripts() {
		t.Run(name, func(t *testing.T) {
			b := newScriptBench(t, s)
			refused := func(what string, args []any) {
				t.Helper()
				for _, steps := range [][]script.Call{one.state, noKey} {
					b.setUp(steps)
					before, dump := b.state(), b.content(b.key)
					_, err := b.try(script.Call{Script: one.call.Script, Args: args})
					var line redis.Error
					require.ErrorAs(t, err, &line, what)
					require.Equal(t, dump, b.content(b.key), what)
					requireSame(t, before, b.state())
				}
			}
			for i := range one.call.Args {
				refused(fmt.Sprintf("%d arguments", i), one.call.Args[:i])
				zero, number := one.numbers[i]
				bad := badNumbers
				switch {
				case !number:
					bad = []any{""}
				case !zero:
					bad = append([]any{"0", "1"}, badNumbers...)
				}
				if (name == "acquire" && i == 1) || (name == "reentrant_acquire" && i == 3) || (name == "reentrant_transfer" && i == 5) {
					continue // no earlier value, no info
				}
				for _, value := range bad {
					args := append([]any(nil), one.call.Args...)
					args[i] = value
					refused(fmt.Sprintf("argument %d is %q", i+1, value), args)
				}
			}
		})
	}
}

// An empty value is nobody's, also where the key is empty.
func TestScriptReleaseOfAnEmptyValue(t *testing.T) {
	t.Parallel()
	b := newScriptBench(t, redistest.Shared(t))
	b.do("SET", b.key, "", "PX", 20_000)
	_, err := b.try(script.Call{Script: script.Release, Args: []any{"", 0, ""}})
	require.ErrorContains(t, err, "bad arguments")
	require.Equal(t, int64(1), b.do("EXISTS", b.key))
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
		"a plain lock, kept": {"SET", "", lockspec.KeptValue(plain3), "PX", 20_000},
		"a reentrant lock":   {"HSET", "", ownerThem, 1, "hold", hold3, "seq", "#1", "info", "info"},
	}
	calls := map[string]script.Call{
		"acquire, no earlier value": acquireOf(plain1, "", longLease),
		"release, nothing to keep":  releaseOf(plain1, 0),
		"release, never to be kept": {Script: script.Release, Args: []any{plain1, 0, ""}},
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
				before, dump := b.state(), b.content(b.key)
				answer, err := redis.Int64(b.try(call))
				require.Equal(t, dump, b.content(b.key))
				requireSame(t, before, b.state())
				if call.Script == script.Release && call.Args[2] == "" && err != nil {
					return // a release without a value to keep may be refused
				}
				require.NoError(t, err)
				require.Contains(t, []int64{script.Other, script.Foreign}, answer)
			})
		}
	}
}

// --- Through the client.
