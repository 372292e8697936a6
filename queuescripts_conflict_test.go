package relock

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
)

// queueState is all that the three keys hold, but for the times of beats.
type queueState struct {
	lock   any
	waits  []string
	fields []string
	newest string
}

func (b *queueScripts) all() queueState {
	b.Helper()
	waits, err := redis.Strings(b.do("ZRANGE", b.queue(), 0, -1, "WITHSCORES"), nil)
	require.NoError(b, err)
	fields, err := redis.Strings(b.do("HKEYS", b.beats()), nil)
	require.NoError(b, err)
	return queueState{b.state().content, waits, fields, b.field("t")}
}

// The kinds and modes of a lock do not mix: what asks for another one than there is learns so, and changes nothing.
func TestQueueScriptConflicts(t *testing.T) {
	s := redistest.Shared(t)
	states := map[string]func(b *queueScripts, w scriptWait){
		"held":     func(b *queueScripts, w scriptWait) { require.Equal(b, "1", b.code(w.try())) },
		"reserved": func(b *queueScripts, w scriptWait) { b.do("SET", b.key, w.reserved(), "PX", 20_000) },
	}
	for state, set := range states {
		for _, there := range allLetters {
			for _, asked := range allLetters {
				t.Run(state+" "+there+", asked for "+asked, func(t *testing.T) {
					holder, w := waitNamed("c9", 1, there), waitNamed("c1", 1, asked)
					calls := map[string]script.Call{"try": w.try(), "enqueue": w.enqueue(), "claim": w.claim()}
					want := map[string]string{"try": "0", "enqueue": "0", "claim": "3"}
					switch asked {
					case "pu":
						calls["acquire"], want["acquire"] = acquireOf(plain1, "", scriptLease), "0"
					case "ru":
						calls["reentrant_acquire"], want["reentrant_acquire"] = reentrantAcquireOf(ownerUs, hold1, scriptLease), "0"
					}
					for name, call := range calls {
						b := newQueueScripts(t, s)
						set(b, holder)
						before := b.all()
						answer := want[name]
						if there != asked {
							answer = "-1"
						}
						require.Equal(t, answer, b.code(call), name)
						if name != "enqueue" || there != asked {
							require.Equal(t, before, b.all(), name)
						}
						require.Equal(t, before.lock, b.all().lock)
					}
				})
			}
		}
	}
}

// A lock that is kept, or that is nobody's, is waited for; what is of another program is a conflict, and is left alone.
func TestQueueScriptOtherKeys(t *testing.T) {
	s := redistest.Shared(t)
	for name, tt := range map[string]struct {
		command []any
		codes   string // of try, enqueue and claim for a plain wait and a reentrant one
	}{
		"kept":                         {[]any{"SET", lockspec.KeptValue(plain1)}, "0 0 3 0 0 3"},
		"denied":                       {[]any{"SET", "relock/1|denied"}, "0 0 3 0 0 3"},
		"of a later relock":            {[]any{"SET", "relock/2|p|h1|"}, "0 0 3 0 0 3"},
		"reserved for what is no wait": {[]any{"SET", "relock/1|w|text"}, "0 0 3 0 0 3"},
		"kept, reentrant":              {[]any{"HSET", "hold", "kept:c1:1", "seq", "#1"}, "-1 -1 -1 0 0 3"},
		"string":                       {[]any{"SET", "text"}, "-1 -1 -1 -1 -1 -1"},
		"empty string":                 {[]any{"SET", ""}, "-1 -1 -1 -1 -1 -1"},
		"hash":                         {[]any{"HSET", ownerUs, 1}, "-1 -1 -1 -1 -1 -1"},
		"list":                         {[]any{"RPUSH", "c1:1"}, "-1 -1 -1 -1 -1 -1"},
		"sorted set":                   {[]any{"ZADD", 1, "c1:1"}, "-1 -1 -1 -1 -1 -1"},
	} {
		t.Run(name, func(t *testing.T) {
			var codes []string
			for _, letters := range []string{"pu", "ru"} {
				w := waitNamed("c1", 1, letters)
				for _, call := range []script.Call{w.try(), w.enqueue(), w.claim(), w.cancel(0), w.cancel(1), nobody.cancel(0), pollAs("c1")} {
					b := newQueueScripts(t, s)
					b.do(tt.command[0].(string), append([]any{b.key}, tt.command[1:]...)...)
					b.do("PEXPIRE", b.key, 20_000)
					before, dump := b.state(), b.content(b.key)
					code := b.code(call)
					require.Equal(t, dump, b.content(b.key))
					requireExpiry(t, before.ttl, b.state().ttl)
					switch call.Script {
					case script.Cancel:
						require.Equal(t, "1", code)
					case script.Poll:
						require.Equal(t, strings.HasSuffix(tt.codes, "-1"), code == "-1")
					default:
						codes = append(codes, code)
						require.Equal(t, code == "0" && call.Script == script.Enqueue, len(b.waits()) == 1)
					}
				}
			}
			require.Equal(t, tt.codes, strings.Join(codes, " "))
		})
	}
}

// A script that is sent twice does what it does once.
func TestQueueScriptsSentTwice(t *testing.T) {
	s := redistest.Shared(t)
	for _, letters := range allLetters {
		w, other, holder := waitNamed("c1", 1, letters), waitNamed("c2", 1, letters), waitNamed("c9", 1, letters)
		states := map[string]func(b *queueScripts){
			"free":                    func(*queueScripts) {},
			"free, it waits":          func(b *queueScripts) { b.line(time.Minute, w) },
			"free, it waits second":   func(b *queueScripts) { b.line(time.Minute, other, w, waitNamed("c3", 1, letters)) },
			"held":                    func(b *queueScripts) { b.code(holder.try()) },
			"held, it waits":          func(b *queueScripts) { b.code(holder.try()); b.line(time.Minute, other, w) },
			"held by it":              func(b *queueScripts) { b.code(w.try()); b.line(time.Minute, other) },
			"reserved for it":         func(b *queueScripts) { b.do("SET", b.key, w.reserved(), "PX", 7000); b.line(time.Minute, other) },
			"reserved for the other":  func(b *queueScripts) { b.do("SET", b.key, other.reserved(), "PX", 7000); b.line(time.Minute, w) },
			"of another kind or mode": func(b *queueScripts) { b.do("RPUSH", b.key, "a"); b.do("PEXPIRE", b.key, 20_000) },
		}
		calls := map[string]script.Call{
			"try": w.try(), "enqueue": w.enqueue(), "enqueue again": w.enqueueAgain("77", ""), "enqueue after an earlier hold": w.enqueueAgain("", holder.hold()),
			"claim": w.claim(), "cancel": w.cancel(0), "cancel with the hold": w.cancel(1), "poll": pollAs("c1", string(w), 77), "release": holder.release(),
		}
		for state, set := range states {
			for name, call := range calls {
				t.Run(fmt.Sprint(letters, "/", state, "/", name), func(t *testing.T) {
					b := newQueueScripts(t, s)
					b.show(map[string]shownBeat{"c1": {0, 0}, "c2": {0, 0}, "c3": {0, 0}})
					set(b)
					first := b.ask(call)
					once := b.all()
					ttl := b.state().ttl
					second := b.ask(call)
					if state == "reserved for it" && strings.HasPrefix(name, "cancel") {
						require.Equal(t, other.reserved(), once.lock)
					}
					require.Equal(t, once, b.all())
					require.InDelta(t, ttl, b.state().ttl, float64(scriptSlack), "expiry")
					if name == "release" { // the second copy finds nothing of its own
						require.Contains(t, []string{first[0], "0", "-1"}, second[0])
						return
					}
					if first[0] != "3" { // hands over a free lock
						require.Equal(t, first[0], second[0])
					}
				})
			}
		}
	}
}

// A bad argument is refused before anything is written, on a lock that is free, held, and reserved.
func TestQueueScriptsRefuseBadArguments(t *testing.T) {
	s := redistest.Shared(t)
	w, other := waitNamed("c1", 1, "pf"), waitNamed("c2", 1, "pf")
	badWaits := []any{"", "text", "c1", "c1:1", "c1:1:pf", "c1:1:pf:", "c1:1:pf:0", "c1:1:pf:-5", "c1:1:pf:5x", "c1:x:pf:5", "c1:1:xf:5", "c1:1:pp:5", ":1:pf:5", "c1:1:pf:5:5"}
	badNumbers := []any{"", "0", "-1", "1.5", "007", "1e3", "nan", "0x10", " 20", "20 ", strings.Repeat("9", 16)}
	badLeases := append([]any{"9"}, badNumbers...)
	empty := []any{""}
	badTickets := []any{"x", "-1", "1.5", " 1", "1e3"}
	for name, tt := range map[string]struct {
		call script.Call
		bad  map[int][]any
	}{
		"try":     {w.try(), map[int][]any{0: badWaits, 1: badLeases, 2: empty}},
		"enqueue": {w.enqueueAgain("5", ""), map[int][]any{0: badWaits, 1: badNumbers, 2: badTickets, 4: badLeases, 5: empty}},
		"claim":   {w.claim(), map[int][]any{0: badWaits, 1: badLeases, 2: empty}},
		"cancel":  {w.cancel(1), map[int][]any{0: badWaits[1:], 1: {"", "2", "-1", "01", "x"}}},
		"poll":    {pollAs("c1", string(w), 5), map[int][]any{0: {"", "c2", "c"}, 1: badNumbers, 2: {"", "c2:1:pf:5", "c11:1:pf:5", "c1"}, 3: append(badTickets, "")}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newQueueScripts(t, s)
			refused := func(what string, args []any) {
				t.Helper()
				for _, held := range []string{"", w.held(), w.reserved(), other.reserved()} {
					b.do("DEL", b.key, b.queue(), b.beats())
					b.show(map[string]shownBeat{"c1": {0, 0}, "c2": {0, 0}})
					b.line(time.Minute, other)
					if held != "" {
						b.do("SET", b.key, held, "PX", 20_000)
					}
					before, beats := b.all(), b.do("HGETALL", b.beats())
					_, err := b.send(script.Call{Script: tt.call.Script, Args: args})
					var line redis.Error
					require.ErrorAs(t, err, &line, what)
					require.Equal(t, before, b.all(), what)
					require.Equal(t, beats, b.do("HGETALL", b.beats()), what)
				}
			}
			for i := range tt.call.Args {
				if name == "poll" && i == 2 {
					continue // a poll that names no waits
				}
				refused(fmt.Sprintf("%d arguments", i), tt.call.Args[:i])
			}
			for i, values := range tt.bad {
				for _, value := range values {
					args := append([]any(nil), tt.call.Args...)
					args[i] = value
					refused(fmt.Sprintf("argument %d is %q", i+1, value), args)
				}
			}
		})
	}
}
