package lua_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/scripttest"
)

// A poll names the wait of its client that the lock is reserved for or held by,
// and how long the lock lasts.
func TestQueueScriptPollAnswers(t *testing.T) {
	s := redistest.Shared(t)
	for _, letters := range allLetters {
		mine, other := scripttest.WaitNamed("c1", 3, letters), scripttest.WaitNamed("c11", 3, letters)
		for _, tt := range []struct {
			name string
			set  func(b *scripttest.Queue)
			code string
			want string
		}{
			{"free", func(*scripttest.Queue) {}, "1", ""},
			{"held by it", func(b *scripttest.Queue) { b.Code(mine.Try()) }, "1", mine.Hold()},
			{"held by others", func(b *scripttest.Queue) { b.Code(other.Try()) }, "1", ""},
			{"reserved for it", func(b *scripttest.Queue) { b.Do("SET", b.Key, mine.Reserved(), "PX", scripttest.Lease.Milliseconds()) }, "1", string(mine)},
			{"reserved for others", func(b *scripttest.Queue) { b.Do("SET", b.Key, other.Reserved(), "PX", scripttest.Lease.Milliseconds()) }, "1", ""},
			{"kept", func(b *scripttest.Queue) {
				b.Do("SET", b.Key, lockspec.KeptValue(scripttest.Plain1), "PX", scripttest.Lease.Milliseconds())
			}, "1", ""},
			{"a list", func(b *scripttest.Queue) {
				b.Do("RPUSH", b.Key, "a")
				b.Do("PEXPIRE", b.Key, scripttest.Lease.Milliseconds())
			}, "-1", ""},
			{"text", func(b *scripttest.Queue) { b.Do("SET", b.Key, "text", "PX", scripttest.Lease.Milliseconds()) }, "-1", ""},
		} {
			t.Run(letters+"/"+tt.name, func(t *testing.T) {
				b := scripttest.NewQueue(t, s)
				tt.set(b)
				before := b.State()
				answer := b.Ask(scripttest.PollAs("c1"))
				require.Len(t, answer, 4)
				require.Equal(t, []string{tt.code, tt.want}, answer[:2])
				ms := number(t, answer[2])
				if before.TTL < 0 {
					require.Equal(t, int64(-2), ms)
				} else {
					scripttest.RequireExpiry(t, scripttest.Lease, time.Duration(ms)*time.Millisecond)
				}
				scripttest.RequireSame(t, before, b.State())
				require.Equal(t, "0", answer[3])
			})
		}
	}
}

// Each poll is a sign of life on the client's channel, and notes anew whether
// that was heard.
func TestQueueScriptPulse(t *testing.T) {
	s := redistest.Shared(t)
	b := scripttest.NewQueue(t, s)
	b.Do("SET", b.Key, scripttest.WaitNamed("c9", 1, "pf").Held(), "PX", 20_000)
	b.Line(0, scripttest.WaitNamed("c9", 2, "pf"))
	counted := func() string { return b.Field("c1")[len(b.Field("c1"))-2:] }
	require.Equal(t, "0", b.Ask(scripttest.PollAs("c1"))[3])
	require.Equal(t, ":0", counted())
	l := b.Listen(s, "c1")
	require.Equal(t, "1", b.Ask(scripttest.PollAs("c1"))[3])
	require.Equal(t, ":1", counted())
	require.Equal(t, []string{""}, l.Heard())
	b.Listen(s, "c1")
	require.Equal(t, "2", b.Ask(scripttest.PollAs("c1"))[3])
	require.Equal(t, ":1", counted())
	require.Equal(t, "0", b.Ask(scripttest.PollAs("c2"))[3])
	require.Equal(t, []string{""}, l.Heard(), "each client has its own channel")

	enqueued := b.Listen(s, "c3")
	b.Ask(scripttest.WaitNamed("c3", 1, "pf").Enqueue())
	require.Equal(t, []string{""}, enqueued.Heard(), "the first beat is one too")
	require.Regexp(t, `^\d+:1000000:1$`, b.Field("c3"))
}

// A client that may not publish is told so, and its subscription counts as one
// that the server cannot see.
func TestQueueScriptPulseIsDenied(t *testing.T) {
	s := redistest.Start(t)
	b := scripttest.NewQueue(t, s)
	b.Do("SET", b.Key, scripttest.WaitNamed("c9", 1, "pf").Held(), "PX", 20_000)
	b.Line(0, scripttest.WaitNamed("c9", 2, "pf"))
	b.Listen(s, "c1")
	b.Listen(s, "c2")
	b.Deny(s, "-publish")
	require.Equal(t, "-1", b.Ask(scripttest.PollAs("c1"))[3])
	require.Regexp(t, `^\d+:1000000:0$`, b.Field("c1"))
	b.Ask(scripttest.WaitNamed("c2", 1, "pf").Enqueue())
	require.Regexp(t, `^\d+:1000000:0$`, b.Field("c2"))
}

// A poll puts back the waits that are neither in the queue, nor reserved for,
// nor hold the lock, each with its ticket.
func TestQueueScriptPollPutsBack(t *testing.T) {
	s := redistest.Shared(t)
	for _, letters := range allLetters {
		reserved, holding := scripttest.WaitNamed("c1", 1, letters), scripttest.WaitNamed("c1", 2, letters)
		queued, gone1, gone2 := scripttest.WaitNamed("c1", 3, letters), scripttest.WaitNamed("c1", 4, letters), scripttest.WaitNamed("c1", 5, letters)
		listed := []any{string(gone2), 300, string(reserved), 100, string(holding), 200, string(queued), 999, string(gone1), 150}
		for _, tt := range []struct {
			name string
			held string
			want []any
		}{
			{"reserved", reserved.Reserved(), []any{gone1, 150, holding, 200, queued, 250, gone2, 300}},
			{"held", holding.Held(), []any{reserved, 100, gone1, 150, queued, 250, gone2, 300}},
			{"held by others", scripttest.WaitNamed("c9", 1, letters).Held(), []any{reserved, 100, gone1, 150, holding, 200, queued, 250, gone2, 300}},
			{"alien", "text", []any{reserved, 100, gone1, 150, holding, 200, queued, 250, gone2, 300}},
		} {
			t.Run(letters+"/"+tt.name, func(t *testing.T) {
				b := scripttest.NewQueue(t, s)
				if tt.held == holding.Held() {
					b.Code(holding.Try())
				} else {
					b.Do("SET", b.Key, tt.held, "PX", 20_000)
				}
				b.Do("ZADD", b.QueueKey(), 250, string(queued))
				b.Do("PEXPIRE", b.QueueKey(), 20_000)
				before := b.State()
				for range 2 {
					b.Ask(scripttest.PollAs("c1", listed...))
					scripttest.RequireSame(t, before, b.State())
					want := []string{}
					for i := 0; i < len(tt.want); i += 2 {
						want = append(want, string(tt.want[i].(scripttest.Wait)), fmt.Sprint(tt.want[i+1]))
					}
					got, err := redis.Strings(b.Do("ZRANGE", b.QueueKey(), 0, -1, "WITHSCORES"), nil)
					require.NoError(t, err)
					require.Equal(t, want, got)
					require.Equal(t, "300", b.Field("t"))
				}
			})
		}
	}
}

// Tickets that are put back raise the last one, and never lower it.
func TestQueueScriptPollRaisesTheLastTicket(t *testing.T) {
	b := scripttest.NewQueue(t, redistest.Shared(t))
	holder, w, next := scripttest.WaitNamed("c9", 1, "pf"), scripttest.WaitNamed("c1", 1, "pf"), scripttest.WaitNamed("c2", 1, "pf")
	require.Equal(t, "1", b.Code(holder.Try()))
	ahead := b.Now() + 3600_000_000
	b.Ask(scripttest.PollAs("c1", string(w), ahead))
	b.Ask(scripttest.PollAs("c1", string(scripttest.WaitNamed("c1", 2, "pf")), 50))
	require.Equal(t, fmt.Sprint(ahead), b.Field("t"))
	require.Equal(t, fmt.Sprint(ahead+1), b.Ask(next.Enqueue())[1])
	b.Ask(scripttest.PollAs("c1", string(scripttest.WaitNamed("c1", 3, "pf")), ahead+100))
	require.Equal(t, fmt.Sprint(ahead+100), b.Field("t"))
}

// A poll hands over, and never takes: also what it puts back itself is only
// reserved.
func TestQueueScriptPollNeverTakes(t *testing.T) {
	s := redistest.Shared(t)
	for _, letters := range allLetters {
		t.Run(letters, func(t *testing.T) {
			b := scripttest.NewQueue(t, s)
			w, later := scripttest.WaitNamed("c1", 1, letters), scripttest.WaitNamed("c1", 2, letters)
			ticket := b.Now() - 60_000_000
			for range 2 {
				answer := b.Ask(scripttest.PollAs("c1", string(later), ticket+1, string(w), ticket))
				require.Equal(t, []string{"1", string(w)}, answer[:2])
				require.Equal(t, w.Reserved(), b.Lock())
				scripttest.RequireExpiry(t, scripttest.Claim, time.Duration(number(t, answer[2]))*time.Millisecond)
				b.RequireHandedTo(w, []scripttest.Wait{later})
			}
			require.Equal(t, "1", b.Code(w.Claim()))
		})
	}
	t.Run("64 waits", func(t *testing.T) {
		b := scripttest.NewQueue(t, s)
		var listed []any
		for i := range 64 {
			listed = append(listed, string(scripttest.WaitNamed("c1", i+1, "pf")), i+1)
		}
		require.Equal(t, "1", b.Code(scripttest.PollAs("c1", listed...)))
		require.Len(t, b.Waits(), 63)
		_, err := b.Send(scripttest.PollAs("c1", append(listed, string(scripttest.WaitNamed("c1", 65, "pf")), 65)...))
		require.ErrorContains(t, err, "bad arguments")
	})
}

// Polls take out the beats of clients that have left long ago, and no others.
func TestQueueScriptPollCleansBeats(t *testing.T) {
	b := scripttest.NewQueue(t, redistest.Shared(t))
	require.Equal(t, "1", b.Code(scripttest.WaitNamed("c9", 1, "pf").Try()))
	b.Line(0, scripttest.WaitNamed("c9", 2, "pf"))
	beats := map[string]scripttest.Beat{"stays": {Age: 11 * scripttest.ScriptPeriod, Counted: 1}, "fresh": {Age: 0, Counted: 0}}
	for i := range 10 {
		beats[fmt.Sprint("left", i)] = scripttest.Beat{Age: 12*scripttest.ScriptPeriod + time.Microsecond, Counted: i % 2}
	}
	b.Do("HSET", b.BeatsKey(), "t", 5)
	b.Show(beats)
	for range 1000 {
		b.Ask(scripttest.PollAs("c1"))
		b.Show(nil) // queue time stands still
		if b.Do("HLEN", b.BeatsKey()) == int64(5) {
			break
		}
	}
	fields, err := redis.Strings(b.Do("HKEYS", b.BeatsKey()), nil)
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"a", "t", "c1", "stays", "fresh"}, fields)
}

// A poll that crossed the end of the last wait leaves no beats; a reservation
// keeps them, for the claim that is under way.
func TestQueueScriptPollOfAnEmptyQueue(t *testing.T) {
	s := redistest.Shared(t)
	for _, letters := range allLetters {
		w, other := scripttest.WaitNamed("c1", 1, letters), scripttest.WaitNamed("c2", 1, letters)
		for name, tt := range map[string]struct {
			set   func(b *scripttest.Queue)
			stays int64
		}{
			"free":       {func(*scripttest.Queue) {}, 0},
			"held":       {func(b *scripttest.Queue) { b.Code(other.Try()) }, 0},
			"held by it": {func(b *scripttest.Queue) { b.Code(w.Try()) }, 0},
			"alien":      {func(b *scripttest.Queue) { b.Do("SET", b.Key, "text", "PX", 20_000) }, 0},
			"reserved":   {func(b *scripttest.Queue) { b.Do("SET", b.Key, other.Reserved(), "PX", 20_000) }, 1},
			"queued":     {func(b *scripttest.Queue) { b.Code(other.Try()); b.Line(0, scripttest.WaitNamed("c2", 2, letters)) }, 1},
		} {
			t.Run(letters+"/"+name, func(t *testing.T) {
				b := scripttest.NewQueue(t, s)
				tt.set(b)
				b.Show(map[string]scripttest.Beat{"c2": {Age: 0, Counted: 0}})
				b.Ask(scripttest.PollAs("c1"))
				require.Equal(t, tt.stays, b.Do("EXISTS", b.BeatsKey()))
			})
		}
	}
}
