package lua_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/scripttest"
)

// allScripts is a valid call of each, which finds the hold of
// scripttest.PlainHeld or scripttest.HeldOnce.
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
		"acquire":               {scripttest.AcquireOf(scripttest.Plain1, scripttest.Plain2, scripttest.LongLease), scripttest.PlainHeld, map[int]bool{2: false}},
		"renew":                 {scripttest.RenewOf(scripttest.Plain1, scripttest.LongLease), scripttest.PlainHeld, map[int]bool{1: false}},
		"release":               {scripttest.ReleaseOf(scripttest.Plain1, scripttest.LongLease), scripttest.PlainHeld, map[int]bool{1: true}},
		"reentrant_acquire":     {scripttest.ReentrantAcquireOf(scripttest.OwnerUs, scripttest.Hold1, scripttest.LongLease), scripttest.HeldOnce, map[int]bool{2: false}},
		"reentrant_enter":       {scripttest.EnterOf(scripttest.Hold1, 2, 2, scripttest.LongLease), scripttest.HeldOnce, map[int]bool{2: false, 3: false, 4: false}},
		"reentrant_renew":       {scripttest.ReentrantRenewOf(scripttest.Hold1, scripttest.LongLease), scripttest.HeldOnce, map[int]bool{1: false}},
		"reentrant_release":     {scripttest.ReentrantReleaseOf(scripttest.Hold1, 0, 2, scripttest.LongLease), scripttest.HeldOnce, map[int]bool{2: true, 3: false, 4: true}},
		"last release, at once": {scripttest.ReentrantReleaseOf(scripttest.Hold1, 0, 2, 0), scripttest.HeldOnce, map[int]bool{2: true, 3: false, 4: true}},
		"reentrant_transfer":    {scripttest.TransferOf(scripttest.Hold1, scripttest.Hold2, scripttest.LongLease), scripttest.HeldOnce, map[int]bool{4: false}},
	}
}

// A bad argument is refused before anything is written, on a key that is held
// and on one that is absent.
func TestScriptsRefuseBadArguments(t *testing.T) {
	s := redistest.Shared(t)
	badNumbers := []any{"", "-1", "1.5", "007000", "1e3", "nan", "inf", "0x10", " 20", "20 ", "20\n", "20\x00", strings.Repeat("9", 20), "text"}
	for name, one := range allScripts() {
		t.Run(name, func(t *testing.T) {
			b := scripttest.NewBench(t, s)
			refused := func(what string, args []any) {
				t.Helper()
				for _, steps := range [][]script.Call{one.state, scripttest.NoKey} {
					b.SetUp(steps)
					before, dump := b.State(), b.Content(b.Key)
					_, err := b.Try(script.Call{Script: one.call.Script, Args: args})
					var line redis.Error
					require.ErrorAs(t, err, &line, what)
					require.Equal(t, dump, b.Content(b.Key), what)
					scripttest.RequireSame(t, before, b.State())
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
	b := scripttest.NewBench(t, redistest.Shared(t))
	b.Do("SET", b.Key, "", "PX", 20_000)
	_, err := b.Try(script.Call{Script: script.Release, Args: []any{"", 0, ""}})
	require.ErrorContains(t, err, "bad arguments")
	require.Equal(t, int64(1), b.Do("EXISTS", b.Key))
}

// A key that is something else is left alone, also by a release.
func TestScriptsLeaveOtherKeysAlone(t *testing.T) {
	s := redistest.Shared(t)
	foreign := map[string][]any{
		"string":             {"SET", "", "text", "PX", 20_000},
		"empty string":       {"SET", "", "", "PX", 20_000},
		"string for ever":    {"SET", "", "text"},
		"hash":               {"HSET", "", scripttest.OwnerUs, 1},
		"list":               {"RPUSH", "", "a"},
		"set":                {"SADD", "", "a"},
		"sorted set":         {"ZADD", "", 1, scripttest.Hold1},
		"a plain lock":       {"SET", "", scripttest.Plain3, "PX", 20_000},
		"a plain lock, kept": {"SET", "", lockspec.KeptValue(scripttest.Plain3), "PX", 20_000},
		"a reentrant lock":   {"HSET", "", scripttest.OwnerThem, 1, "hold", scripttest.Hold3, "seq", "#1", "info", "info"},
	}
	calls := map[string]script.Call{
		"acquire, no earlier value": scripttest.AcquireOf(scripttest.Plain1, "", scripttest.LongLease),
		"release, nothing to keep":  scripttest.ReleaseOf(scripttest.Plain1, 0),
		"release, never to be kept": {Script: script.Release, Args: []any{scripttest.Plain1, 0, ""}},
		"inner release":             scripttest.ReentrantReleaseOf(scripttest.Hold1, 1, 2, 0),
		"last release":              scripttest.ReentrantReleaseOf(scripttest.Hold1, 0, 2, 0),
	}
	for name, script := range allScripts() {
		calls[name] = script.call
	}
	for name, call := range calls {
		for kind, command := range foreign {
			t.Run(name+"/"+kind, func(t *testing.T) {
				b := scripttest.NewBench(t, s)
				args := append([]any(nil), command[1:]...)
				args[0] = b.Key
				b.Do(command[0].(string), args...)
				before, dump := b.State(), b.Content(b.Key)
				answer, err := redis.Int64(b.Try(call))
				require.Equal(t, dump, b.Content(b.Key))
				scripttest.RequireSame(t, before, b.State())
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
