package lua_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
)

// redNode runs the scripts of a RedLock's node on one lock.
type redNode struct{ *Queue }

// newRedNode returns a bench whose lock has a value, or is free without one.
// The waits are listed in this order.
func newRedNode(t testing.TB, s *redistest.Server, held string, waits ...string) *redNode {
	b := &redNode{NewQueue(t, s)}
	b.Do("DEL", b.list())
	b.hold(held)
	for i, wait := range waits {
		b.Do("ZADD", b.list(), i+1, wait)
	}
	b.Do("PEXPIRE", b.list(), 20_000)
	return b
}

func (b *redNode) list() string { return b.Key + script.WaitersSuffix }

func (b *redNode) hold(value string) {
	b.Helper()
	b.Do("DEL", b.Key)
	b.Store(value)
}

// redPeriod is after which time waits poll.
const redPeriod = 400 * time.Millisecond

// wants returns the request of a call that waits.
func wants(acquire *script.Script, value, wait string) script.Call {
	return script.Call{Script: acquire, Args: []any{value, Lease.Milliseconds(), 0, wait, redPeriod.Milliseconds()}}
}

// answer returns the reply to a call without the name of the server, and
// without what is left of a lease. It checks both.
func (b *redNode) answer(s script.Call) []string {
	b.Helper()
	all := b.Ask(s)
	require.Regexp(b, "^[0-9a-f]{40}$", all[1])
	if len(all) < 5 {
		return append(all[:1:1], all[2:]...)
	}
	left, err := time.ParseDuration(all[2] + "ms")
	require.NoError(b, err)
	RequireExpiry(b, b.State().TTL+time.Second, left)
	return append(all[:1:1], all[3:]...)
}

// requireListed checks the list of waits, and what a client was sent.
func (b *redNode) requireListed(l *Listener, notified []string, waits ...string) {
	b.Helper()
	all, err := redis.Strings(b.Do("ZRANGE", b.list(), 0, -1), nil)
	require.NoError(b, err)
	require.Equal(b, append([]string{}, waits...), all)
	if l != nil {
		for i := range notified {
			notified[i] += " " + b.Key
		}
		require.Equal(b, notified, l.Heard())
	}
}

func redRelease(value string, keep int) script.Call {
	return script.Call{Script: script.RedLockRelease, Args: []any{value, keep, "relock/1|k"}}
}

func unwait(wait string) script.Call {
	return script.Call{Script: script.RedLockUnwait, Args: []any{wait}}
}

// The lock of one node is taken if it is free, and if the server has been up
// for long enough.
func TestRedLockScript(t *testing.T) {
	for name, tt := range map[string]struct{ before, want string }{
		"free":                    {"", "1"},
		"ours":                    {Plain1, "1"},
		"held":                    {Plain3, "0"},
		"kept":                    {"relock/1|k|h5|c5|host|5|label|5", "2"},
		"reserved":                {"relock/1|w|c6:1:pu:1250", "0"},
		"held by a fair call":     {"relock/1|f|h4|c4|host|4|label|4", "0"},
		"reserved for a fair one": {"relock/1|w|c6:2:pf:1250", "0"},
		"reserved, reentrant":     {"relock/1|w|c6:3:ru:1250", "-1"},
		"something else":          {"text", "-1"},
		"another type":            {"hash c1:g:1=1 h1 #1 info", "-1"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newRedNode(t, server, tt.before)
			acquire := func(lease time.Duration, least int64) []string {
				return b.answer(script.Call{Script: script.RedLockAcquire, Args: []any{Plain1, lease.Milliseconds(), least, "", 0}})
			}
			before := b.State()
			young := acquire(LongLease, 1<<40)
			require.Len(t, young, 2)
			require.Equal(t, fmt.Sprint(script.RecentlyStarted), young[0])
			require.Less(t, number(t, young[1]), int64(1<<40))
			RequireSame(t, before, b.State())
			require.Equal(t, tt.want, acquire(LongLease, 0)[0])
			if tt.want != "1" {
				RequireSame(t, before, b.State())
				return
			}
			RequireSame(t, locktest.KeyState{Content: Plain1, TTL: LongLease}, b.State())
			require.Equal(t, []string{"1"}, acquire(Lease, 0), "a late copy")
			RequireSame(t, locktest.KeyState{Content: Plain1, TTL: LongLease}, b.State())
		})
	}
}

// A call that waits is listed while others hold the lock, in the order of its
// first request. It leaves the list when it has the lock.
func TestRedLockScriptLists(t *testing.T) {
	for name, acquire := range map[string]*script.Script{
		"without a token": script.RedLockWait, "with a token": script.RedLockWait.Fenced,
	} {
		t.Run(name, func(t *testing.T) {
			b := newRedNode(t, server, locktest.RedValue("theirs", 3))
			first := wants(acquire, Plain1, "c1:1:q")
			require.Equal(t, []string{"0", "0", "theirs"}, b.answer(first))
			l := b.Listen("c2")
			require.Equal(t, []string{"0", "1", "theirs"}, b.answer(wants(acquire, Plain2, "c2:1:q")))
			require.Equal(t, []string{""}, l.Heard(), "a heartbeat")
			require.Equal(t, []string{"0", "0", "theirs"}, b.answer(first))
			b.requireListed(nil, nil, "c1:1:q", "c2:1:q")
			RequireExpiry(t, 12*time.Second, b.TTL(b.list()))
			b.Do("PEXPIRE", b.list(), 50_000)
			b.answer(first)
			require.Greater(t, b.TTL(b.list()), 40*time.Second, "others want it for longer")
			b.hold("")
			require.Equal(t, "1", b.answer(first)[0])
			b.requireListed(nil, nil, "c2:1:q")
			require.Equal(t, int64(0), b.Do("EXISTS", b.list()+script.CounterSuffix))
		})
	}
	for value, holder := range map[string]string{
		"relock/1|k|theirs.2|c1|host|1|label|1": "theirs", Plain3: "", "relock/1|w|c6:1:pu:1250": "",
	} {
		b := newRedNode(t, server, value)
		rarely := wants(script.RedLockWait, Plain1, "c1:1:q")
		rarely.Args[4] = 5000
		answer := b.answer(rarely)
		require.Equal(t, []string{"0", holder}, answer[1:], value)
		require.Equal(t, strings.HasPrefix(value, "relock/1|k"), answer[0] == "2", value)
		RequireExpiry(t, time.Minute, b.TTL(b.list()))
	}
}

// Without a permission a wait is not listed, or not notified: the call polls.
func TestRedLockScriptListsWithoutPermission(t *testing.T) {
	call := wants(script.RedLockWait, Plain1, "c1:1:q")
	for denied, heard := range map[string]string{"-time": "-2", "-zadd": "-2", "-publish": "-1", "-pexpire": "-2"} {
		b := newRedNode(t, server, locktest.RedValue("theirs", 3))
		b.Deny(denied)
		require.Equal(t, []string{"0", heard, "theirs"}, b.answer(call), denied)
		require.Equal(t, heard == "-1", b.Do("EXISTS", b.list()) == int64(1), denied)
	}
	b := newRedNode(t, server, locktest.RedValue("theirs", 3))
	b.Do("SET", b.list(), "text", "PX", 20_000)
	require.Equal(t, []string{"0", "-2", "theirs"}, b.answer(call))
	b.hold("")
	require.Equal(t, []string{"1"}, b.answer(call), "a list that is something else")
}

// A release notifies the first wait whose client listens, once. Waits before it
// whose clients are gone leave the list. No script examines more than 128.
func TestRedLockScriptNotifiesTheFirst(t *testing.T) {
	holder := locktest.RedValue("h1", 1)
	for _, keep := range []int{0, 5000} {
		b := newRedNode(t, server, holder, "gone:1:q", "text", "c1:7:q", "c1:8:q")
		l := b.Listen("c1")
		require.Equal(t, "0", b.Code(redRelease(locktest.RedValue("h2", 1), 0)), "not ours")
		require.Empty(t, l.Heard())
		b.RequireDone(redRelease(holder, keep))
		b.requireListed(l, []string{"c1:7:q"}, "c1:8:q")
		require.Equal(t, int64(keep/5000), b.Do("EXISTS", b.Key))
		if keep == 0 {
			require.Equal(t, "0", b.Code(redRelease(holder, 0)), "a late copy")
			require.Empty(t, l.Heard())
		}
	}
	gone := []string{}
	for n := range 130 {
		gone = append(gone, fmt.Sprintf("gone:%d:q", n))
	}
	b := newRedNode(t, server, "", gone...)
	for _, left := range [][]string{gone[128:], nil, nil} {
		b.hold(holder)
		b.RequireDone(redRelease(holder, 0))
		require.Empty(t, b.Lock())
		b.requireListed(nil, nil, left...)
	}
}

// A release frees the lock whatever is denied to notify waiters.
func TestRedLockScriptReleasesWithoutPermission(t *testing.T) {
	holder, both := locktest.RedValue("h1", 1), []string{"c1:1:q", "c1:2:q"}
	for denied, left := range map[string][]string{
		"-zrange": both, "-publish": both, "-zremrangebyrank": both, "-time": both[1:],
	} {
		b := newRedNode(t, server, holder, both...)
		b.Listen("c1")
		b.Deny(denied)
		b.RequireDone(redRelease(holder, 0))
		require.Empty(t, b.Lock(), denied)
		b.requireListed(nil, nil, left...)
	}
	b := newRedNode(t, server, holder)
	b.Do("SET", b.list(), "text", "PX", 20_000)
	b.RequireDone(redRelease(holder, 0))
	require.Empty(t, b.Lock())
	b.hold(holder)
	alone := script.RedLockRelease.BySource([]string{b.Key}, []any{holder, 0, ""})
	require.Equal(t, int64(1), b.Do(alone.Cmd, alone.Args...), "only the lock may be named")
	require.Empty(t, b.Lock())
}

// A wait that is over leaves the list. If the lock is free, it passes its
// notification on.
func TestRedLockScriptUnwait(t *testing.T) {
	b := newRedNode(t, server, Plain3, "c1:1:q", "c1:2:q", "c1:3:q")
	l := b.Listen("c1")
	b.RequireDone(unwait("c1:2:q"), unwait("c1:2:q"))
	b.requireListed(l, nil, "c1:1:q", "c1:3:q")
	b.hold("")
	b.RequireDone(unwait("c1:2:q"))
	b.requireListed(l, []string{"c1:1:q"}, "c1:3:q")
	b.RequireDone(unwait("c1:3:q"))
	b.requireListed(l, nil)
}
