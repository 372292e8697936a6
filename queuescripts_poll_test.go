package relock

import (
	"fmt"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redistest"
)

// A poll names the wait of its client that the lock is reserved for or held by, and how long the lock lasts.
func TestQueueScriptPollAnswers(t *testing.T) {
	s := redistest.Shared(t)
	for _, letters := range allLetters {
		mine, other := waitNamed("c1", 3, letters), waitNamed("c11", 3, letters)
		for _, tt := range []struct {
			name string
			set  func(b *queueScripts)
			code string
			want string
		}{
			{"free", func(*queueScripts) {}, "1", ""},
			{"held by it", func(b *queueScripts) { b.code(mine.try()) }, "1", mine.hold()},
			{"held by others", func(b *queueScripts) { b.code(other.try()) }, "1", ""},
			{"reserved for it", func(b *queueScripts) { b.do("SET", b.key, mine.reserved(), "PX", scriptLease.Milliseconds()) }, "1", string(mine)},
			{"reserved for others", func(b *queueScripts) { b.do("SET", b.key, other.reserved(), "PX", scriptLease.Milliseconds()) }, "1", ""},
			{"kept", func(b *queueScripts) {
				b.do("SET", b.key, lockspec.KeptValue(plain1), "PX", scriptLease.Milliseconds())
			}, "1", ""},
			{"a list", func(b *queueScripts) { b.do("RPUSH", b.key, "a"); b.do("PEXPIRE", b.key, scriptLease.Milliseconds()) }, "-1", ""},
			{"text", func(b *queueScripts) { b.do("SET", b.key, "text", "PX", scriptLease.Milliseconds()) }, "-1", ""},
		} {
			t.Run(letters+"/"+tt.name, func(t *testing.T) {
				b := newQueueScripts(t, s)
				tt.set(b)
				before := b.state()
				answer := b.ask(pollAs("c1"))
				require.Len(t, answer, 4)
				require.Equal(t, []string{tt.code, tt.want}, answer[:2])
				ms := number(t, answer[2])
				if before.ttl < 0 {
					require.Equal(t, int64(-2), ms)
				} else {
					requireExpiry(t, scriptLease, time.Duration(ms)*time.Millisecond)
				}
				requireSame(t, before, b.state())
				require.Equal(t, "0", answer[3])
			})
		}
	}
}

// Each poll is a sign of life on the client's channel, and notes anew whether that was heard.
func TestQueueScriptPulse(t *testing.T) {
	s := redistest.Shared(t)
	b := newQueueScripts(t, s)
	b.do("SET", b.key, waitNamed("c9", 1, "pf").held(), "PX", 20_000)
	b.line(0, waitNamed("c9", 2, "pf"))
	counted := func() string { return b.field("c1")[len(b.field("c1"))-2:] }
	require.Equal(t, "0", b.ask(pollAs("c1"))[3])
	require.Equal(t, ":0", counted())
	l := b.listen(s, "c1")
	require.Equal(t, "1", b.ask(pollAs("c1"))[3])
	require.Equal(t, ":1", counted())
	require.Equal(t, []string{""}, l.heard())
	b.listen(s, "c1")
	require.Equal(t, "2", b.ask(pollAs("c1"))[3])
	require.Equal(t, ":1", counted())
	require.Equal(t, "0", b.ask(pollAs("c2"))[3])
	require.Equal(t, []string{""}, l.heard(), "each client has its own channel")

	enqueued := b.listen(s, "c3")
	b.ask(waitNamed("c3", 1, "pf").enqueue())
	require.Equal(t, []string{""}, enqueued.heard(), "the first beat is one too")
	require.Regexp(t, `^\d+:1000000:1$`, b.field("c3"))
}

// A client that may not publish is told so, and its subscription counts as one that the server cannot see.
func TestQueueScriptPulseIsDenied(t *testing.T) {
	s := redistest.Start(t)
	b := newQueueScripts(t, s)
	b.do("SET", b.key, waitNamed("c9", 1, "pf").held(), "PX", 20_000)
	b.line(0, waitNamed("c9", 2, "pf"))
	b.listen(s, "c1")
	b.listen(s, "c2")
	b.deny(s, "-publish")
	require.Equal(t, "-1", b.ask(pollAs("c1"))[3])
	require.Regexp(t, `^\d+:1000000:0$`, b.field("c1"))
	b.ask(waitNamed("c2", 1, "pf").enqueue())
	require.Regexp(t, `^\d+:1000000:0$`, b.field("c2"))
}

// A poll puts back the waits that are neither in the queue, nor reserved for, nor hold the lock, each with its ticket.
func TestQueueScriptPollPutsBack(t *testing.T) {
	s := redistest.Shared(t)
	for _, letters := range allLetters {
		reserved, holding := waitNamed("c1", 1, letters), waitNamed("c1", 2, letters)
		queued, gone1, gone2 := waitNamed("c1", 3, letters), waitNamed("c1", 4, letters), waitNamed("c1", 5, letters)
		listed := []any{string(gone2), 300, string(reserved), 100, string(holding), 200, string(queued), 999, string(gone1), 150}
		for _, tt := range []struct {
			name string
			held string
			want []any
		}{
			{"reserved", reserved.reserved(), []any{gone1, 150, holding, 200, queued, 250, gone2, 300}},
			{"held", holding.held(), []any{reserved, 100, gone1, 150, queued, 250, gone2, 300}},
			{"held by others", waitNamed("c9", 1, letters).held(), []any{reserved, 100, gone1, 150, holding, 200, queued, 250, gone2, 300}},
			{"alien", "text", []any{reserved, 100, gone1, 150, holding, 200, queued, 250, gone2, 300}},
		} {
			t.Run(letters+"/"+tt.name, func(t *testing.T) {
				b := newQueueScripts(t, s)
				if tt.held == holding.held() {
					b.code(holding.try())
				} else {
					b.do("SET", b.key, tt.held, "PX", 20_000)
				}
				b.do("ZADD", b.queue(), 250, string(queued))
				b.do("PEXPIRE", b.queue(), 20_000)
				before := b.state()
				for range 2 {
					b.ask(pollAs("c1", listed...))
					requireSame(t, before, b.state())
					want := []string{}
					for i := 0; i < len(tt.want); i += 2 {
						want = append(want, string(tt.want[i].(scriptWait)), fmt.Sprint(tt.want[i+1]))
					}
					got, err := redis.Strings(b.do("ZRANGE", b.queue(), 0, -1, "WITHSCORES"), nil)
					require.NoError(t, err)
					require.Equal(t, want, got)
					require.Equal(t, "300", b.field("t"))
				}
			})
		}
	}
}

// Tickets that are put back raise the last one, and never lower it.
func TestQueueScriptPollRaisesTheLastTicket(t *testing.T) {
	b := newQueueScripts(t, redistest.Shared(t))
	holder, w, next := waitNamed("c9", 1, "pf"), waitNamed("c1", 1, "pf"), waitNamed("c2", 1, "pf")
	require.Equal(t, "1", b.code(holder.try()))
	ahead := b.now() + 3600_000_000
	b.ask(pollAs("c1", string(w), ahead))
	b.ask(pollAs("c1", string(waitNamed("c1", 2, "pf")), 50))
	require.Equal(t, fmt.Sprint(ahead), b.field("t"))
	require.Equal(t, fmt.Sprint(ahead+1), b.ask(next.enqueue())[1])
	b.ask(pollAs("c1", string(waitNamed("c1", 3, "pf")), ahead+100))
	require.Equal(t, fmt.Sprint(ahead+100), b.field("t"))
}

// A poll hands over, and never takes: also what it puts back itself is only reserved.
func TestQueueScriptPollNeverTakes(t *testing.T) {
	s := redistest.Shared(t)
	for _, letters := range allLetters {
		t.Run(letters, func(t *testing.T) {
			b := newQueueScripts(t, s)
			w, later := waitNamed("c1", 1, letters), waitNamed("c1", 2, letters)
			ticket := b.now() - 60_000_000
			for range 2 {
				answer := b.ask(pollAs("c1", string(later), ticket+1, string(w), ticket))
				require.Equal(t, []string{"1", string(w)}, answer[:2])
				require.Equal(t, w.reserved(), b.lock())
				requireExpiry(t, scriptClaim, time.Duration(number(t, answer[2]))*time.Millisecond)
				b.requireHandedTo(w, []scriptWait{later})
			}
			require.Equal(t, "1", b.code(w.claim()))
		})
	}
	t.Run("64 waits", func(t *testing.T) {
		b := newQueueScripts(t, s)
		var listed []any
		for i := range 64 {
			listed = append(listed, string(waitNamed("c1", i+1, "pf")), i+1)
		}
		require.Equal(t, "1", b.code(pollAs("c1", listed...)))
		require.Len(t, b.waits(), 63)
		_, err := b.send(pollAs("c1", append(listed, string(waitNamed("c1", 65, "pf")), 65)...))
		require.ErrorContains(t, err, "bad arguments")
	})
}

// Polls take out the beats of clients that have left long ago, and no others.
func TestQueueScriptPollCleansBeats(t *testing.T) {
	b := newQueueScripts(t, redistest.Shared(t))
	require.Equal(t, "1", b.code(waitNamed("c9", 1, "pf").try()))
	b.line(0, waitNamed("c9", 2, "pf"))
	beats := map[string]shownBeat{"stays": {11 * scriptPeriod, 1}, "fresh": {0, 0}}
	for i := range 10 {
		beats[fmt.Sprint("left", i)] = shownBeat{12*scriptPeriod + time.Microsecond, i % 2}
	}
	b.do("HSET", b.beats(), "t", 5)
	b.show(beats)
	for range 1000 {
		b.ask(pollAs("c1"))
		b.show(nil) // queue time stands still
		if b.do("HLEN", b.beats()) == int64(5) {
			break
		}
	}
	fields, err := redis.Strings(b.do("HKEYS", b.beats()), nil)
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"a", "t", "c1", "stays", "fresh"}, fields)
}

// A poll that crossed the end of the last wait leaves no beats; a reservation keeps them, for the claim that is under way.
func TestQueueScriptPollOfAnEmptyQueue(t *testing.T) {
	s := redistest.Shared(t)
	for _, letters := range allLetters {
		w, other := waitNamed("c1", 1, letters), waitNamed("c2", 1, letters)
		for name, tt := range map[string]struct {
			set   func(b *queueScripts)
			stays int64
		}{
			"free":       {func(*queueScripts) {}, 0},
			"held":       {func(b *queueScripts) { b.code(other.try()) }, 0},
			"held by it": {func(b *queueScripts) { b.code(w.try()) }, 0},
			"alien":      {func(b *queueScripts) { b.do("SET", b.key, "text", "PX", 20_000) }, 0},
			"reserved":   {func(b *queueScripts) { b.do("SET", b.key, other.reserved(), "PX", 20_000) }, 1},
			"queued":     {func(b *queueScripts) { b.code(other.try()); b.line(0, waitNamed("c2", 2, letters)) }, 1},
		} {
			t.Run(letters+"/"+name, func(t *testing.T) {
				b := newQueueScripts(t, s)
				tt.set(b)
				b.show(map[string]shownBeat{"c2": {0, 0}})
				b.ask(pollAs("c1"))
				require.Equal(t, tt.stays, b.do("EXISTS", b.beats()))
			})
		}
	}
}
