package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/display"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/testkit"
)

// answer is what relock has printed.
type answer struct {
	out, err string
	code     int
}

// ask runs relock in this process.
func (b *bench) ask(args ...string) answer {
	b.Helper()
	var out, errs bytes.Buffer
	root := newRoot()
	root.SetArgs(append([]string{"--redis", urlOf(b.proxy.Network, b.proxy.Address)}, args...))
	root.SetOut(&out)
	root.SetErr(&errs)
	err := root.Execute()
	say(&errs, err)
	return answer{out.String(), errs.String(), codeOf(err)}
}

// succeeds runs relock, which has no error and no note, and returns its output.
func (b *bench) succeeds(args ...string) string {
	b.Helper()
	a := b.ask(args...)
	require.Zero(b, a.code, a.err)
	require.Empty(b, a.err)
	return a.out
}

// waits makes a client wait for a lock until the test ends, and returns once it
// is in the queue, behind as many as were there.
func (b *bench) waits(lock func(c *relock.Client) relock.Mutex, key string) {
	b.Helper()
	c := b.client()
	info, err := c.Inspect(b.Context(), key)
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(b.Context())
	done := testkit.Async(b, func() error {
		return lock(c).Do(ctx, func(context.Context) error { return nil })
	})
	b.Cleanup(func() {
		cancel()
		b.Log("the waiter ended:", <-done) // it may have got the lock meanwhile
	})
	testkit.Eventually(b, testkit.Patience, func() bool {
		now, err := c.Inspect(b.Context(), key)
		require.NoError(b, err)
		return now.Waiting > info.Waiting
	}, "nobody waits")
}

func plain(key string, opts ...relock.LockOption) func(c *relock.Client) relock.Mutex {
	return func(c *relock.Client) relock.Mutex {
		return relock.NewRedisLock(key, c, append(opts, relock.WithBlock())...)
	}
}

// figures stands for what differs in each run.
func figures(text string) string {
	host, _ := os.Hostname()
	text = strings.ReplaceAll(text, fmt.Sprintf("%s:%d", host, os.Getpid()), "HOST:PID")
	text = regexp.MustCompile(`\b(\d+h)?(\d+m)?[\d.]+m?s\b`).ReplaceAllString(text, "T")
	// Not the digits behind a point: some numbers have 16 of them.
	text = regexp.MustCompile(`([^.\w-])[A-Za-z0-9_-]{16,}`).ReplaceAllString(text, "${1}ID")
	text = regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-][\d:]+)`).ReplaceAllString(text, "DATE")
	return regexp.MustCompile(` {2,}`).ReplaceAllString(text, "  ")
}

// Locks of each kind are listed, those with the longest wait first. A key of
// another program is counted.
func TestList(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	require.Equal(t, "KEY  KIND  STATE  HOLDER  AGE  LEFT  WAITING  OLDEST-WAIT\n", figures(b.succeeds("ls")))
	c := b.client()
	take := func(l relock.Hold, err error) { t.Helper(); require.NoError(t, err) }
	take(relock.NewRedisLock("orders/42", c, relock.WithFair(), relock.WithLabel("pay out")).Acquire(t.Context()))
	take(relock.NewRWLock("prices", c).RAcquire(t.Context()))
	take(relock.NewSemaphore("transcode", 3, c).Acquire(t.Context()))
	take(relock.NewSemaphore("transcode", 3, c).Acquire(t.Context()))
	kept, err := relock.NewRedisLock("kept", c, relock.WithMinHold(time.Hour)).Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, kept.Unlock(t.Context()))
	b.waits(plain("orders/42", relock.WithFair()), "orders/42")
	b.server.Do(t, "SET", "relock:{other}", "x")
	a := b.ask("ls")
	require.Zero(t, a.code)
	require.Equal(t, "relock: not locks of this version: 1 keys\n", a.err)
	require.Equal(t, strings.TrimPrefix(`
KEY  KIND  STATE  HOLDER  AGE  LEFT  WAITING  OLDEST-WAIT
orders/42  plain,fair  held  "pay out@HOST:PID"  T  T  1  T
kept  plain  kept  HOST:PID  T  T  0  -
prices  read/write  held  HOST:PID  T  T  0  -
transcode  semaphore  held  HOST:PID,+1  T  T  0  -
`, "\n"), figures(a.out))
	require.Equal(t, 2, strings.Count(b.succeeds("ls", "order*"), "\n"))
	require.Regexp(t, `(?s)kept.*orders/42.*prices.*transcode`, b.ask("ls", "--sort", "key").out)
	require.Regexp(t, `(?s)orders/42.*prices.*transcode.*kept`, b.ask("ls", "--sort", "age").out)
}

// The fields of JSON are those of the documentation, of free locks too.
func TestJSON(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.hold("orders/42")
	b.waits(plain("orders/42"), "orders/42")
	line := figures(b.succeeds("ls", "-o", "json"))
	holder := `"holder":\{"client":"ID","host":"[^"]*","pid":\d+,"label":"","since":"DATE",` +
		`"owner":"","count":1,"forced":false\}`
	waiters := `"waiters":\[\{"client":"ID","age":[\d.e-]+,"kind":"plain","fair":false\}\]`
	require.Regexp(t, `^\{"key":"orders/42","state":"held","kind":"plain","fair":false,`+holder+
		`,"readers":\[\],"remaining":[\d.]+,"fence":0,"waiting":1,`+waiters+`,"permits":0\}\n$`, line)
	require.Equal(t, line[:17], figures(b.succeeds("inspect", "-o", "json", "orders/42"))[:17])
	require.JSONEq(t,
		`{"key":"x","state":"free","kind":"","fair":false,"holder":null,"readers":[],"remaining":0,`+
			`"fence":0,"waiting":0,"waiters":[],"permits":0}`,
		b.succeeds("inspect", "-o", "json", "x"))
	b.server.Do(t, "PERSIST", "relock:{orders/42}")
	require.Contains(t, b.succeeds("ls", "-o", "json"), `"remaining":null`)
	require.Contains(t, b.succeeds("ls"), "for-ever")
}

// A key or label of somebody else cannot drive the terminal.
func TestControlCharacters(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	odd := "a\x1b[2J\n\u202e\xff b"
	_, err := relock.NewRedisLock(odd, b.client(), relock.WithLabel("\x1b]0;title\x07\u202e")).Acquire(t.Context())
	require.NoError(t, err)
	for _, args := range [][]string{{"ls", "-o", "json"}, {"inspect", "-o", "json", odd}} {
		require.NotContains(t, b.succeeds(args...), "\x1b")
	}
	for _, args := range [][]string{{"ls"}, {"inspect", odd}, {"release", "--force", "--reason", "r", odd}} {
		out := b.succeeds(args...)
		require.Contains(t, out, `"a\x1b[2J\n\u202e\xff b"`)
		require.NotRegexp(t, "[\x1b\x07\u202e]", out)
	}
}

// A list that is cut has a line about it.
func TestListIsCut(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c := b.client()
	const locks = 1001
	for n := range locks {
		_, err := relock.NewRedisLock(fmt.Sprint("key", n), c).Acquire(t.Context())
		require.NoError(t, err)
	}
	a := b.ask("ls")
	require.Equal(t, "relock: stopped at 1000 locks, see --limit\n", a.err)
	require.Equal(t, 1+1000, strings.Count(a.out, "\n"))
	require.Equal(t, 1+locks, strings.Count(b.succeeds("ls", "--limit", "1001", "--for", "0"), "\n"))

	open := make(chan struct{})
	defer close(open)
	b.proxy.On(faults.Command("SCAN"), 2, faults.DelayUntil(open))
	a = b.ask("ls", "--limit", "2000", "--for", "0.5")
	require.Zero(t, a.code)
	require.Regexp(t, `^relock: stopped after 500ms; \d+ locks so far, see --for\n$`, a.err)
}

// What was read before an error is printed.
func TestListBeforeAnError(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.hold("key")
	b.server.Do(t, "ACL", "SETUSER", "default", "-scan")
	a := b.ask("ls")
	require.Equal(t, codeFailed, a.code)
	require.Contains(t, a.err, "permission")
	require.Equal(t, 1, strings.Count(a.err, "\n"))
	b.proxy.Refuse()
	require.Equal(t, codeFailed, b.ask("ls").code)
}

// ls --watch prints again what has changed, also after an outage.
func TestWatch(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.start(b.relock("--timeout", "0.2", "ls", "--watch=0.05"))
	p.says("KEY")
	h := b.hold("key")
	p.says("key ")
	b.proxy.Refuse()
	testkit.Eventually(t, testkit.Patience, func() bool { return p.err.String() != "" }, "the outage is not said")
	b.proxy.Accept()
	require.NoError(t, h.Unlock(t.Context()))
	b.hold("later")
	p.says("later")
	require.NotContains(t, p.out.String(), "\x1b", "it is no terminal")
	p.kill()
}

// Mistakes in arguments are one line.
func TestMistakesOfTools(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for text, args := range map[string][]string{
		"waiting, age or key": {"ls", "--sort", "size"},
		"below 1":             {"ls", "--limit", "0"},
		"needs a table":       {"ls", "--watch", "-o", "json"},
		"table or json":       {"ls", "-o", "yaml"},
		"accepts at most 1":   {"ls", "a", "b"},
		"accepts 1 arg":       {"inspect"},
		"key:":                {"inspect", "}"},
		"needs --force":       {"release", "--reason", "x", "key"},
		"and --reason":        {"release", "--force", "key"},
		"reason: 257":         {"release", "--force", "--reason", strings.Repeat("x", 257), "key"},
		"needs a command":     {"queue"},
		"unknown command":     {"queue", "list"},
		"name: ":              {"queue", "stats", ""},
		"--limit: 0":          {"queue", "dead", "--limit", "0", "mails"},
		"at least 2 arg":      {"queue", "requeue", "mails"},
		"requeue: an ID is":   {"queue", "requeue", "mails", "a", ""},
		"remove: an ID is":    {"queue", "remove", "mails", ""},
	} {
		a := b.ask(args...)
		require.Equal(t, codeFailed, a.code, args)
		require.Contains(t, a.err, text)
		require.Equal(t, 1, strings.Count(a.err, "\n"), a.err)
		require.Empty(t, a.out)
	}
}

// Completion names the locks that are there, and is silent without a server.
func TestCompletionOfKeys(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	odd := []string{"orders/a b", "orders/$(x)", "orders/`x`", "orders/;x", "orders/é~\u202e", "-orders", "=orders"}
	for _, key := range append(odd, "orders/1", "orders/2", "orders/é", "mails", "[x") {
		b.hold(key)
	}
	out := b.ask("__complete", "inspect", "ord").out
	require.Contains(t, out, "orders/1\n")
	require.Contains(t, out, "orders/2\n")
	require.Contains(t, out, "orders/é\n")
	require.NotContains(t, out, "mails")
	all := b.ask("__complete", "inspect", "").out
	for _, key := range odd {
		require.NotContains(t, all, key)
	}
	require.Contains(t, b.ask("__complete", "release", "[").out, "[x\n")
	require.NotContains(t, b.ask("__complete", "inspect", "mails", "ord").out, "orders")
	b.proxy.Refuse()
	require.Equal(t, ":4\n", b.ask("__complete", "inspect", "ord").out)
}

// Rows of JSON can be read again.
func TestJSONIsReadable(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.hold("one")
	b.hold("two")
	lines := json.NewDecoder(strings.NewReader(b.succeeds("ls", "-o", "json", "--sort", "key")))
	for _, key := range []string{"one", "two"} {
		var row display.LockRow
		require.NoError(t, lines.Decode(&row))
		require.Equal(t, key, row.Key)
		require.Equal(t, os.Getpid(), row.Holder.PID)
		require.WithinRange(t, row.Holder.Since, time.Now().Add(-testkit.Patience), time.Now())
	}
}

// A lock that is acquired twice has two levels. A MultiLock is a row for each
// of its keys.
func TestListOfSeveralGrants(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c := b.client()
	nested := relock.NewReentrantLock("nested", c)
	for range 2 {
		_, err := nested.Acquire(t.Context())
		require.NoError(t, err)
	}
	_, err := relock.NewMultiLock([]string{"from", "to"}, c).Acquire(t.Context())
	require.NoError(t, err)
	require.Equal(t, strings.TrimPrefix(`
KEY  KIND  STATE  HOLDER  AGE  LEFT  WAITING  OLDEST-WAIT
from  plain  held  HOST:PID  T  T  0  -
nested  reentrant  held  HOST:PID  T  T  0  -
to  plain  held  HOST:PID  T  T  0  -
`, "\n"), figures(b.succeeds("ls", "--sort", "key")))
	require.Regexp(t, ` levels  2\n`, figures(b.succeeds("inspect", "nested")))
	require.Contains(t, b.succeeds("ls", "-o", "json", "nested"), `"count":2`)
}

// A RedLock is a row on each server that has granted it, which two of three
// have.
func TestListOfARedLock(t *testing.T) {
	t.Parallel()
	var servers []*bench
	var clients []*relock.Client
	for range 3 {
		b := newBench(t)
		servers, clients = append(servers, b), append(clients, b.client())
	}
	const largest = time.Second
	red := relock.NewRedLock("red", clients, relock.WithMaxLease(largest), relock.WithWatchdog(largest),
		relock.WithBlock())
	_, err := red.Acquire(t.Context()) // once the servers are old enough
	require.NoError(t, err)
	rows := 0
	for _, b := range servers {
		rows += strings.Count(figures(b.succeeds("ls")), "\nred  plain  held  HOST:PID  T  T  0  -\n")
	}
	require.GreaterOrEqual(t, rows, 2)
}

// On a terminal, ls --watch replaces what it has shown.
func TestWatchOnATerminal(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	term := b.terminal(`"$1" "$2" "$3" ls --watch=0.05`)
	const wiped = "\x1b[H\x1b[2J"
	shows := func(want bool) {
		t.Helper()
		testkit.Eventually(t, testkit.Patience, func() bool {
			pages := strings.Split(term.out.String(), wiped)
			if len(pages) < 3 {
				return false
			}
			last := pages[len(pages)-2] // it is whole
			return strings.HasPrefix(last, "KEY ") && strings.Contains(last, "\nkey ") == want
		}, "the screen does not change")
	}
	shows(false)
	h := b.hold("key")
	shows(true)
	require.NoError(t, h.Unlock(t.Context()))
	shows(false)
	term.types("\x03")
	require.NotZero(t, term.code())
}
