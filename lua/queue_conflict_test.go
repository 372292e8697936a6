package lua_test

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
	"github.com/relock-go/relock/internal/scripttest"
)

// The kinds and modes of a lock do not mix: what asks for another one than
// there is learns so, and changes nothing.
func TestQueueScriptConflicts(t *testing.T) {
	s := redistest.Shared(t)
	states := map[string]func(b *scripttest.Queue, w scripttest.Wait){
		"held":     func(b *scripttest.Queue, w scripttest.Wait) { require.Equal(b, "1", b.Code(w.Try())) },
		"reserved": func(b *scripttest.Queue, w scripttest.Wait) { b.Do("SET", b.Key, w.Reserved(), "PX", 20_000) },
	}
	for state, set := range states {
		for _, there := range allLetters {
			for _, asked := range allLetters {
				t.Run(state+" "+there+", asked for "+asked, func(t *testing.T) {
					holder, w := scripttest.WaitNamed("c9", 1, there), scripttest.WaitNamed("c1", 1, asked)
					calls := map[string]script.Call{"try": w.Try(), "enqueue": w.Enqueue(), "claim": w.Claim()}
					want := map[string]string{"try": "0", "enqueue": "0", "claim": "3"}
					switch asked {
					case "pu":
						calls["acquire"], want["acquire"] = scripttest.AcquireOf(scripttest.Plain1, "", scripttest.Lease), "0"
					case "ru":
						calls["reentrant_acquire"], want["reentrant_acquire"] = scripttest.ReentrantAcquireOf(scripttest.OwnerUs, scripttest.Hold1, scripttest.Lease), "0"
					}
					for name, call := range calls {
						b := scripttest.NewQueue(t, s)
						set(b, holder)
						before := b.All()
						answer := want[name]
						if there != asked {
							answer = "-1"
						}
						require.Equal(t, answer, b.Code(call), name)
						if name != "enqueue" || there != asked {
							require.Equal(t, before, b.All(), name)
						}
						require.Equal(t, before.Lock, b.All().Lock)
					}
				})
			}
		}
	}
}

// A lock that is kept, or that is nobody's, is waited for; what is of another
// program is a conflict, and is left alone.
func TestQueueScriptOtherKeys(t *testing.T) {
	s := redistest.Shared(t)
	for name, tt := range map[string]struct {
		command []any
		codes   string // of try, enqueue and claim for a plain wait and a reentrant one
	}{
		"kept":                         {[]any{"SET", lockspec.KeptValue(scripttest.Plain1)}, "0 0 3 0 0 3"},
		"denied":                       {[]any{"SET", "relock/1|denied"}, "0 0 3 0 0 3"},
		"of a later relock":            {[]any{"SET", "relock/2|p|h1|"}, "0 0 3 0 0 3"},
		"reserved for what is no wait": {[]any{"SET", "relock/1|w|text"}, "0 0 3 0 0 3"},
		"kept, reentrant":              {[]any{"HSET", "hold", "kept:c1:1", "seq", "#1"}, "-1 -1 -1 0 0 3"},
		"string":                       {[]any{"SET", "text"}, "-1 -1 -1 -1 -1 -1"},
		"empty string":                 {[]any{"SET", ""}, "-1 -1 -1 -1 -1 -1"},
		"hash":                         {[]any{"HSET", scripttest.OwnerUs, 1}, "-1 -1 -1 -1 -1 -1"},
		"list":                         {[]any{"RPUSH", "c1:1"}, "-1 -1 -1 -1 -1 -1"},
		"sorted set":                   {[]any{"ZADD", 1, "c1:1"}, "-1 -1 -1 -1 -1 -1"},
	} {
		t.Run(name, func(t *testing.T) {
			var codes []string
			for _, letters := range []string{"pu", "ru"} {
				w := scripttest.WaitNamed("c1", 1, letters)
				for _, call := range []script.Call{w.Try(), w.Enqueue(), w.Claim(), w.Cancel(0), w.Cancel(1), scripttest.Nobody.Cancel(0), scripttest.PollAs("c1")} {
					b := scripttest.NewQueue(t, s)
					b.Do(tt.command[0].(string), append([]any{b.Key}, tt.command[1:]...)...)
					b.Do("PEXPIRE", b.Key, 20_000)
					before, dump := b.State(), b.Content(b.Key)
					code := b.Code(call)
					require.Equal(t, dump, b.Content(b.Key))
					scripttest.RequireExpiry(t, before.TTL, b.State().TTL)
					switch call.Script {
					case script.Cancel:
						require.Equal(t, "1", code)
					case script.Poll:
						require.Equal(t, strings.HasSuffix(tt.codes, "-1"), code == "-1")
					default:
						codes = append(codes, code)
						require.Equal(t, code == "0" && call.Script == script.Enqueue, len(b.Waits()) == 1)
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
		w, other, holder := scripttest.WaitNamed("c1", 1, letters), scripttest.WaitNamed("c2", 1, letters), scripttest.WaitNamed("c9", 1, letters)
		states := map[string]func(b *scripttest.Queue){
			"free":                    func(*scripttest.Queue) {},
			"free, it waits":          func(b *scripttest.Queue) { b.Line(time.Minute, w) },
			"free, it waits second":   func(b *scripttest.Queue) { b.Line(time.Minute, other, w, scripttest.WaitNamed("c3", 1, letters)) },
			"held":                    func(b *scripttest.Queue) { b.Code(holder.Try()) },
			"held, it waits":          func(b *scripttest.Queue) { b.Code(holder.Try()); b.Line(time.Minute, other, w) },
			"held by it":              func(b *scripttest.Queue) { b.Code(w.Try()); b.Line(time.Minute, other) },
			"reserved for it":         func(b *scripttest.Queue) { b.Do("SET", b.Key, w.Reserved(), "PX", 7000); b.Line(time.Minute, other) },
			"reserved for the other":  func(b *scripttest.Queue) { b.Do("SET", b.Key, other.Reserved(), "PX", 7000); b.Line(time.Minute, w) },
			"of another kind or mode": func(b *scripttest.Queue) { b.Do("RPUSH", b.Key, "a"); b.Do("PEXPIRE", b.Key, 20_000) },
		}
		calls := map[string]script.Call{
			"try": w.Try(), "enqueue": w.Enqueue(), "enqueue again": w.EnqueueAgain("77", ""), "enqueue after an earlier hold": w.EnqueueAgain("", holder.Hold()),
			"claim": w.Claim(), "cancel": w.Cancel(0), "cancel with the hold": w.Cancel(1), "poll": scripttest.PollAs("c1", string(w), 77), "release": holder.Release(),
		}
		for state, set := range states {
			for name, call := range calls {
				t.Run(fmt.Sprint(letters, "/", state, "/", name), func(t *testing.T) {
					b := scripttest.NewQueue(t, s)
					b.Show(map[string]scripttest.Beat{"c1": {Age: 0, Counted: 0}, "c2": {Age: 0, Counted: 0}, "c3": {Age: 0, Counted: 0}})
					set(b)
					first := b.Ask(call)
					once := b.All()
					ttl := b.State().TTL
					second := b.Ask(call)
					if state == "reserved for it" && strings.HasPrefix(name, "cancel") {
						require.Equal(t, other.Reserved(), once.Lock)
					}
					require.Equal(t, once, b.All())
					require.InDelta(t, ttl, b.State().TTL, float64(scripttest.Slack), "expiry")
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

// A bad argument is refused before anything is written, on a lock that is free,
// held, and reserved.
func TestQueueScriptsRefuseBadArguments(t *testing.T) {
	s := redistest.Shared(t)
	w, other := scripttest.WaitNamed("c1", 1, "pf"), scripttest.WaitNamed("c2", 1, "pf")
	badWaits := []any{"", "text", "c1", "c1:1", "c1:1:pf", "c1:1:pf:", "c1:1:pf:0", "c1:1:pf:-5", "c1:1:pf:5x", "c1:x:pf:5", "c1:1:xf:5", "c1:1:pp:5", ":1:pf:5", "c1:1:pf:5:5"}
	badNumbers := []any{"", "0", "-1", "1.5", "007", "1e3", "nan", "0x10", " 20", "20 ", strings.Repeat("9", 16)}
	badLeases := append([]any{"9"}, badNumbers...)
	empty := []any{""}
	badTickets := []any{"x", "-1", "1.5", " 1", "1e3"}
	for name, tt := range map[string]struct {
		call script.Call
		bad  map[int][]any
	}{
		"try":     {w.Try(), map[int][]any{0: badWaits, 1: badLeases, 2: empty}},
		"enqueue": {w.EnqueueAgain("5", ""), map[int][]any{0: badWaits, 1: badNumbers, 2: badTickets, 4: badLeases, 5: empty}},
		"claim":   {w.Claim(), map[int][]any{0: badWaits, 1: badLeases, 2: empty}},
		"cancel":  {w.Cancel(1), map[int][]any{0: badWaits[1:], 1: {"", "2", "-1", "01", "x"}}},
		"poll":    {scripttest.PollAs("c1", string(w), 5), map[int][]any{0: {"", "c2", "c"}, 1: badNumbers, 2: {"", "c2:1:pf:5", "c11:1:pf:5", "c1"}, 3: append(badTickets, "")}},
	} {
		t.Run(name, func(t *testing.T) {
			b := scripttest.NewQueue(t, s)
			refused := func(what string, args []any) {
				t.Helper()
				for _, held := range []string{"", w.Held(), w.Reserved(), other.Reserved()} {
					b.Do("DEL", b.Key, b.QueueKey(), b.BeatsKey())
					b.Show(map[string]scripttest.Beat{"c1": {Age: 0, Counted: 0}, "c2": {Age: 0, Counted: 0}})
					b.Line(time.Minute, other)
					if held != "" {
						b.Do("SET", b.Key, held, "PX", 20_000)
					}
					before, beats := b.All(), b.Do("HGETALL", b.BeatsKey())
					_, err := b.Send(script.Call{Script: tt.call.Script, Args: args})
					var line redis.Error
					require.ErrorAs(t, err, &line, what)
					require.Equal(t, before, b.All(), what)
					require.Equal(t, beats, b.Do("HGETALL", b.BeatsKey()), what)
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
