package lua_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/lockspec"
)

// A poll names the wait of its client that the lock is reserved for or held by,
// and how long the lock lasts. A poll that crossed the end of the last wait
// leaves no beats. A reservation keeps them, for the claim that is under way.
func TestQueueScriptPollAnswers(t *testing.T) {
	for _, letters := range allLetters {
		mine, other := WaitNamed("c1", 3, letters), WaitNamed("c11", 3, letters)
		for held, tt := range map[string]struct {
			code, named string
			beats       int64
		}{
			"":                         {"1", "", 0},
			mine.Held():                {"1", mine.Hold(), 0},
			other.Held():               {"1", "", 0},
			mine.Reserved():            {"1", string(mine), 1},
			other.Reserved():           {"1", "", 1},
			lockspec.KeptValue(Plain1): {"2", "", 0},
			"something foreign":        {"-1", "", 0},
		} {
			t.Run(letters+"/"+held, func(t *testing.T) {
				b := NewQueue(t, server)
				b.Store(held)
				b.Live("c11")
				before := b.State()
				answer := b.Ask(PollAs("c1"))
				require.Len(t, answer, 4)
				require.Equal(t, []string{tt.code, tt.named}, answer[:2])
				if ms := number(t, answer[2]); held == "" {
					require.Equal(t, int64(-2), ms)
				} else {
					RequireExpiry(t, Lease, time.Duration(ms)*time.Millisecond)
				}
				RequireSame(t, before, b.State())
				require.Equal(t, "0", answer[3])
				require.Equal(t, tt.beats, b.Do("EXISTS", b.HeartbeatsKey()))
			})
		}
		b := NewHeld(t, server, other)
		b.Line(0, WaitNamed("c2", 2, letters))
		b.Ask(PollAs("c1"))
		require.Equal(t, int64(1), b.Do("EXISTS", b.HeartbeatsKey()), "queued")
	}
}

// Each poll is a heartbeat on the client's channel, and records anew whether
// anybody received it. A client that may not publish is answered -1, and its
// subscription counts as one that the server cannot see.
func TestQueueScriptHeartbeat(t *testing.T) {
	b := NewHeld(t, server, WaitNamed("c9", 1, "pf"))
	b.Line(0, WaitNamed("c9", 2, "pf"))
	requireHeard := func(client, heard, counted string) {
		t.Helper()
		require.Equal(t, heard, b.Ask(PollAs(client))[3])
		require.Regexp(t, `^\d+:1000000:`+counted+`$`, b.Field(client))
	}
	requireHeard("c1", "0", "0")
	l := b.Listen("c1")
	requireHeard("c1", "1", "1")
	require.Equal(t, []string{""}, l.Heard())
	b.Listen("c1")
	requireHeard("c1", "2", "1")
	requireHeard("c2", "0", "0")
	require.Equal(t, []string{""}, l.Heard(), "each client has its own channel")

	enqueued := b.Listen("c3")
	b.Ask(WaitNamed("c3", 1, "pf").Enqueue())
	require.Equal(t, []string{""}, enqueued.Heard(), "the first heartbeat is one too")
	require.Regexp(t, `^\d+:1000000:1$`, b.Field("c3"))
	b.Deny("-publish")
	requireHeard("c1", "-1", "0")
	b.Listen("c4")
	b.Ask(WaitNamed("c4", 1, "pf").Enqueue())
	require.Regexp(t, `^\d+:1000000:0$`, b.Field("c4"))
}

// A poll puts back the waits that are neither in the queue, nor reserved for,
// nor hold the lock, each with its ticket.
func TestQueueScriptPollPutsBack(t *testing.T) {
	for _, letters := range allLetters {
		reserved, holding := WaitNamed("c1", 1, letters), WaitNamed("c1", 2, letters)
		queued, gone1, gone2 := WaitNamed("c1", 3, letters), WaitNamed("c1", 4, letters), WaitNamed("c1", 5, letters)
		listed := []any{
			string(gone2), 300, string(reserved), 100, string(holding), 200, string(queued), 999, string(gone1), 150,
		}
		tickets := map[Wait]string{reserved: "100", gone1: "150", holding: "200", queued: "250", gone2: "300"}
		for name, tt := range map[string]struct {
			held string
			want []Wait
		}{
			"reserved":       {reserved.Reserved(), []Wait{gone1, holding, queued, gone2}},
			"held":           {holding.Held(), []Wait{reserved, gone1, queued, gone2}},
			"held by others": {WaitNamed("c9", 1, letters).Held(), []Wait{reserved, gone1, holding, queued, gone2}},
			"foreign":        {"text", []Wait{reserved, gone1, holding, queued, gone2}},
		} {
			t.Run(letters+"/"+name, func(t *testing.T) {
				b := NewQueue(t, server)
				b.Store(tt.held)
				b.Do("ZADD", b.QueueKey(), 250, string(queued))
				b.Do("PEXPIRE", b.QueueKey(), 20_000)
				before := b.State()
				for range 2 {
					b.Ask(PollAs("c1", listed...))
					RequireSame(t, before, b.State())
					b.RequireWaits("", tt.want...)
					for _, w := range tt.want {
						require.Equal(t, []byte(tickets[w]), b.Do("ZSCORE", b.QueueKey(), string(w)))
					}
					require.Equal(t, "300", b.Field("t"))
				}
			})
		}
	}
}

// A poll hands off, and never takes: what it puts back itself is also only
// reserved.
func TestQueueScriptPollNeverTakes(t *testing.T) {
	for _, letters := range allLetters {
		b := NewQueue(t, server)
		w, later := WaitNamed("c1", 1, letters), WaitNamed("c1", 2, letters)
		ticket := b.Now() - 60_000_000
		for range 2 {
			answer := b.Ask(PollAs("c1", string(later), ticket+1, string(w), ticket))
			require.Equal(t, []string{"1", string(w)}, answer[:2])
			RequireExpiry(t, Claim, time.Duration(number(t, answer[2]))*time.Millisecond)
			b.RequireHandedTo(w, []Wait{later})
		}
		b.RequireDone(w.Claim())
	}
	b := NewQueue(t, server)
	var listed []any
	for i := range 64 {
		listed = append(listed, string(WaitNamed("c1", i+1, "pf")), i+1)
	}
	b.RequireDone(PollAs("c1", listed...))
	require.Len(t, b.Waits(), 63)
}

// Polls take out the heartbeats of clients that have left long ago, and no
// others.
func TestQueueScriptPollCleansBeats(t *testing.T) {
	for _, letters := range kinds {
		b := NewHeld(t, server, WaitNamed("c9", 1, letters[1]))
		b.Line(0, WaitNamed("c9", 2, letters[1]))
		heartbeats := map[string]Heartbeat{"stays": {Age: 11 * ScriptPeriod, Counted: 1}, "fresh": {}}
		for i := range 10 {
			heartbeats[fmt.Sprint("left", i)] = Heartbeat{Age: 12*ScriptPeriod + time.Microsecond, Counted: i % 2}
		}
		b.Do("HSET", b.HeartbeatsKey(), "t", 5)
		b.Show(heartbeats)
		b.Until(func() bool {
			b.Ask(WaitNamed("c1", 1, letters[0]).Poll())
			b.Live() // queue time stands still
			return b.Do("HLEN", b.HeartbeatsKey()) == int64(5)
		}, "the heartbeats go")
		fields, err := redis.Strings(b.Do("HKEYS", b.HeartbeatsKey()), nil)
		require.NoError(t, err)
		require.ElementsMatch(t, []string{"a", "t", "c1", "stays", "fresh"}, fields)
	}
}

// A poll names those waits of its client that may have the lock, and puts back
// what was taken out. It also names the first wait if that was not listed: its
// client may have forgotten it.
func TestRWScriptPoll(t *testing.T) {
	x, y, w := WaitNamed("c1", 1, "sf"), WaitNamed("c1", 2, "sf"), WaitNamed("c1", 3, "wf")
	other, writer := WaitNamed("c9", 1, "sf"), WaitNamed("c8", 1, "wf")
	all := func(waits ...Wait) []Wait { return waits }
	for name, tt := range map[string]struct {
		stored []string
		line   []Wait
		listed []Wait
		named  []Wait
		lock   []string
		queue  []Wait
	}{
		"nothing":                  {},
		"puts back, and hands off": {nil, nil, all(x, y, w), all(x, y), []string{x.Reserved(), y.Reserved()}, all(w)},
		"reserved before": {
			[]string{x.Reserved(), y.Reserved()}, nil, all(x, y), all(x, y), []string{x.Reserved(), y.Reserved()}, nil,
		},
		"held":                        {[]string{x.Reads()}, nil, all(x), all(x), []string{x.Reads()}, nil},
		"reserved for it, not listed": {[]string{x.Reserved()}, nil, nil, nil, []string{x.Reserved()}, nil},
		"reserved before, ended": {
			[]string{other.Reads()}, nil, all(w, x), nil, []string{other.Reads(), x.Reserved()}, all(w, x),
		},
		"of others":             {[]string{other.Reads()}, nil, all(w), nil, []string{other.Reads()}, all(w)},
		"the first, not listed": {[]string{other.Reads()}, all(w, x), all(x), all(w), []string{other.Reads()}, all(w, x)},
		"the first, listed":     {[]string{other.Reads()}, all(w, x), all(x, w), nil, []string{other.Reads()}, all(w, x)},
		"the first is another's": {
			[]string{writer.Writes()}, all(other, x), nil, nil, []string{writer.Writes()}, all(other, x),
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := NewQueue(t, server)
			if strings.HasSuffix(name, "ended") {
				b.Put("f", -time.Second, x.Reserved())
			}
			if tt.stored != nil {
				b.Put("f", Lease, tt.stored...)
			}
			b.Line(time.Minute, tt.line...)
			var listed []any
			for i, w := range tt.listed {
				listed = append(listed, string(w), 5+i)
			}
			answer := b.Ask(RWPollAs("c1", listed...))
			require.Equal(t, []string{"1", ""}, answer[:2])
			require.Equal(t, "0", answer[3])
			want := []string{}
			for _, w := range tt.named {
				want = append(want, string(w))
			}
			require.Equal(t, want, answer[4:])
			require.Equal(t, tt.lock == nil, number(t, answer[2]) < 0)
			b.Require("", tt.lock, tt.queue...)
		})
	}
	b := NewQueue(t, server)
	b.Live("c1")
	for i := range 20 {
		b.Line(time.Minute-time.Duration(i)*time.Millisecond, WaitNamed("c1", 1+i, "sf"))
	}
	require.Len(t, b.Ask(RWPollAs("c1"))[4:], 16+1,
		"16 of the readers, and the first of the others, which it has not listed")
	require.Len(t, b.Entries(), 16)
	b.RequireDone(x.Claim())
	require.Len(t, b.Entries(), 20)
}
