package lua_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/scripttest"
)

// The scripts with which a node of a RedLock tells those who wait, by
// themselves, on a real server.

// redNode runs them on one lock.
type redNode struct{ *scripttest.Queue }

func newRedNode(t testing.TB, s *redistest.Server) *redNode {
	b := &redNode{scripttest.NewQueue(t, s)}
	b.Do("DEL", b.places())
	return b
}

func (b *redNode) places() string { return b.Key + script.WaitersSuffix }

// redPeriod is after which time waits ask again.
const redPeriod = 400 * time.Millisecond

// wants is the request of a call that waits.
func wants(acquire *script.Script, value, wait string) script.Call {
	return script.Call{Script: acquire, Args: []any{value, scripttest.Lease.Milliseconds(), 0, wait, redPeriod.Milliseconds()}}
}

// answer is what a call that waits is told, without the name of the server and
// what is left of a lease, which it checks.
func (b *redNode) answer(s script.Call) []string {
	b.Helper()
	all := b.Ask(s)
	require.Regexp(b, "^[0-9a-f]{40}$", all[1])
	if len(all) < 5 {
		return append(all[:1:1], all[2:]...)
	}
	left, err := time.ParseDuration(all[2] + "ms")
	require.NoError(b, err)
	scripttest.RequireExpiry(b, b.State().TTL+time.Second, left)
	return append(all[:1:1], all[3:]...)
}

func (b *redNode) listed() []string {
	b.Helper()
	all, err := redis.Strings(b.Do("ZRANGE", b.places(), 0, -1), nil)
	require.NoError(b, err)
	return all
}

func (b *redNode) told(wait string) string { return wait + " " + b.Key }

func (b *redNode) release(value string) string {
	b.Helper()
	return b.Code(script.Call{Script: script.RedLockRelease, Args: []any{value, 0, ""}})
}

func (b *redNode) unwait(wait string) {
	b.Helper()
	require.Equal(b, "1", b.Code(script.Call{Script: script.RedLockUnwait, Args: []any{wait}}))
}

// A call that waits is listed while others hold the lock, in the order of its
// first request, and no more once it has it.
func TestRedLockScriptLists(t *testing.T) {
	s := redistest.Shared(t)
	for name, acquire := range map[string]*script.Script{"without a token": script.RedLockWait, "with a token": script.RedLockWait.Fenced} {
		t.Run(name, func(t *testing.T) {
			b := newRedNode(t, s)
			b.Do("SET", b.Key, scripttest.RedValue("theirs", 3), "PX", scripttest.Lease.Milliseconds())
			require.Equal(t, []string{"0", "0", "theirs"}, b.answer(wants(acquire, scripttest.Plain1, "c1:1:q")))
			l := b.Listen(s, "c2")
			require.Equal(t, []string{"0", "1", "theirs"}, b.answer(wants(acquire, scripttest.Plain2, "c2:1:q")))
			require.Equal(t, []string{""}, l.Heard(), "a sign of life")
			require.Equal(t, []string{"0", "0", "theirs"}, b.answer(wants(acquire, scripttest.Plain1, "c1:1:q")))
			require.Equal(t, []string{"c1:1:q", "c2:1:q"}, b.listed())
			ttl := time.Duration(b.Do("PTTL", b.places()).(int64)) * time.Millisecond
			scripttest.RequireExpiry(t, 12*time.Second, ttl)
			b.Do("PEXPIRE", b.places(), 50_000)
			b.answer(wants(acquire, scripttest.Plain1, "c1:1:q"))
			require.Greater(t, b.Do("PTTL", b.places()), int64(40_000), "others want it for longer")
			b.Do("DEL", b.Key)
			require.Equal(t, "1", b.answer(wants(acquire, scripttest.Plain1, "c1:1:q"))[0])
			require.Equal(t, []string{"c2:1:q"}, b.listed())
			require.Equal(t, int64(0), b.Do("EXISTS", b.places()+script.CounterSuffix))
		})
	}
	for what, value := range map[string]string{"kept": "relock/1|k|theirs.2|c1|host|1|label|1", "": scripttest.Plain3, "reserved": "relock/1|w|c6:1:pu:1250"} {
		b := newRedNode(t, s)
		b.Do("SET", b.Key, value, "PX", scripttest.Lease.Milliseconds())
		holder := map[bool]string{true: "theirs"}[what == "kept"]
		require.Equal(t, []string{"0", "0", holder}, b.answer(wants(script.RedLockWait, scripttest.Plain1, "c1:1:q")), what)
	}
}

// A call that asks rarely is remembered for longer.
func TestRedLockScriptRemembersForTwelvePeriods(t *testing.T) {
	b := newRedNode(t, redistest.Shared(t))
	b.Do("SET", b.Key, scripttest.Plain3, "PX", scripttest.Lease.Milliseconds())
	s := wants(script.RedLockWait, scripttest.Plain1, "c1:1:q")
	s.Args[4] = 5000
	b.answer(s)
	scripttest.RequireExpiry(t, time.Minute, time.Duration(b.Do("PTTL", b.places()).(int64))*time.Millisecond)
}

// What may not be done to list a wait leaves it unlisted: the call asks by
// itself then.
func TestRedLockScriptListsWithoutPermission(t *testing.T) {
	s := redistest.Start(t)
	for _, denied := range []string{"-time", "-zadd", "-publish", "-pexpire"} {
		b := newRedNode(t, s)
		b.Do("SET", b.Key, scripttest.RedValue("theirs", 3), "PX", scripttest.Lease.Milliseconds())
		b.Deny(s, denied)
		heard, listed := "-2", []string{}
		if denied == "-publish" {
			heard, listed = "-1", []string{"c1:1:q"}
		}
		require.Equal(t, []string{"0", heard, "theirs"}, b.answer(wants(script.RedLockWait, scripttest.Plain1, "c1:1:q")), denied)
		require.Equal(t, listed, b.listed(), denied)
	}
	b := newRedNode(t, s)
	b.Do("SET", b.Key, scripttest.RedValue("theirs", 3), "PX", scripttest.Lease.Milliseconds())
	b.Do("SET", b.places(), "text", "PX", 20_000)
	require.Equal(t, []string{"0", "-2", "theirs"}, b.answer(wants(script.RedLockWait, scripttest.Plain1, "c1:1:q")))
	b.Do("DEL", b.Key)
	require.Equal(t, []string{"1"}, b.answer(wants(script.RedLockWait, scripttest.Plain1, "c1:1:q")), "a list that is something else")
}

// A release tells the first whose client listens, once; those before it that
// are gone leave the list.
func TestRedLockScriptTellsTheFirst(t *testing.T) {
	s := redistest.Shared(t)
	for _, keep := range []int{0, 5000} {
		b := newRedNode(t, s)
		holder := scripttest.RedValue("h1", 1)
		b.Do("SET", b.Key, holder, "PX", scripttest.Lease.Milliseconds())
		l := b.Listen(s, "c1")
		b.Do("ZADD", b.places(), 1, "gone:1:q", 2, "text", 3, "c1:7:q", 4, "c1:8:q")
		b.Do("PEXPIRE", b.places(), 20_000)
		require.Equal(t, "0", b.release(scripttest.RedValue("h2", 1)), "not ours")
		require.Empty(t, l.Heard())
		require.Equal(t, "1", b.Code(script.Call{Script: script.RedLockRelease, Args: []any{holder, keep, "relock/1|k"}}))
		require.Equal(t, []string{b.told("c1:7:q")}, l.Heard())
		require.Equal(t, []string{"c1:8:q"}, b.listed())
		require.Equal(t, int64(keep/5000), b.Do("EXISTS", b.Key))
		if keep == 0 {
			require.Equal(t, "0", b.release(holder), "a late copy")
			require.Empty(t, l.Heard())
		}
	}
}

// Nobody listens: the list is empty afterwards. No script looks at more than
// 128.
func TestRedLockScriptTellsNobody(t *testing.T) {
	b := newRedNode(t, redistest.Shared(t))
	holder := scripttest.RedValue("h1", 1)
	for _, left := range []int{2, 0, 0} {
		if left > 0 {
			for n := range 128 + left {
				b.Do("ZADD", b.places(), n, fmt.Sprintf("gone:%d:q", n))
			}
			b.Do("PEXPIRE", b.places(), 20_000)
		}
		b.Do("SET", b.Key, holder, "PX", scripttest.Lease.Milliseconds())
		require.Equal(t, "1", b.release(holder))
		require.Empty(t, b.Lock())
		require.Len(t, b.listed(), left)
	}
}

// A release is done whatever may not be done for those who wait.
func TestRedLockScriptReleasesWithoutPermission(t *testing.T) {
	s := redistest.Start(t)
	for denied, left := range map[string][]string{
		"-zrange": {"c1:1:q", "c1:2:q"}, "-publish": {"c1:1:q", "c1:2:q"}, "-zremrangebyrank": {"c1:1:q", "c1:2:q"}, "-time": {"c1:2:q"},
	} {
		b := newRedNode(t, s)
		holder := scripttest.RedValue("h1", 1)
		b.Do("SET", b.Key, holder, "PX", scripttest.Lease.Milliseconds())
		b.Listen(s, "c1")
		b.Do("ZADD", b.places(), 1, "c1:1:q", 2, "c1:2:q")
		b.Do("PEXPIRE", b.places(), 20_000)
		b.Deny(s, denied)
		require.Equal(t, "1", b.release(holder), denied)
		require.Empty(t, b.Lock(), denied)
		require.Equal(t, left, b.listed(), denied)
	}
	b := newRedNode(t, s)
	holder := scripttest.RedValue("h1", 1)
	b.Do("SET", b.Key, holder, "PX", scripttest.Lease.Milliseconds())
	b.Do("SET", b.places(), "text", "PX", 20_000)
	require.Equal(t, "1", b.release(holder))
	require.Empty(t, b.Lock())
	b.Do("SET", b.Key, holder, "PX", scripttest.Lease.Milliseconds())
	alone := script.RedLockRelease.BySource([]string{b.Key}, []any{holder, 0, ""})
	require.Equal(t, int64(1), b.Do(alone.Cmd, alone.Args...), "only the lock may be named")
	require.Empty(t, b.Lock())
}

// A wait that is over leaves the list, and passes on what it was told while the
// lock is free.
func TestRedLockScriptUnwait(t *testing.T) {
	s := redistest.Shared(t)
	b := newRedNode(t, s)
	l := b.Listen(s, "c1")
	b.Do("ZADD", b.places(), 1, "c1:1:q", 2, "c1:2:q", 3, "c1:3:q")
	b.Do("PEXPIRE", b.places(), 20_000)
	b.Do("SET", b.Key, scripttest.Plain3, "PX", scripttest.Lease.Milliseconds())
	b.unwait("c1:2:q")
	b.unwait("c1:2:q")
	require.Empty(t, l.Heard())
	require.Equal(t, []string{"c1:1:q", "c1:3:q"}, b.listed())
	b.Do("DEL", b.Key)
	b.unwait("c1:2:q")
	require.Equal(t, []string{b.told("c1:1:q")}, l.Heard())
	b.unwait("c1:3:q")
	require.Empty(t, l.Heard())
	require.Empty(t, b.listed())
	for _, bad := range []string{"", "c1", "c1:1:pu:1250", ":1:q", "c1::q"} {
		_, err := b.Send(script.Call{Script: script.RedLockUnwait, Args: []any{bad}})
		require.ErrorContains(t, err, "bad arguments", bad)
	}
}
