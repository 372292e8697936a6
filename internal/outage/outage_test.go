package outage

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/relock-go/relock/internal/goroutines"
	"github.com/relock-go/relock/internal/test/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errRefused = errors.New("connection refused")

// bench has the log of a client.
type bench struct {
	testing.TB
	log   *Log
	lines *testkit.Log
}

// onBench runs a test in virtual time.
func onBench(t *testing.T, test func(*bench)) {
	t.Helper()
	testkit.Bubble(t, func(t *testing.T) {
		var group goroutines.Group
		lines := &testkit.Log{}
		test(&bench{t, New(lines.Logger(), func(f func()) { group.Start(f) }), lines})
		group.Wait()
	})
}

// answer is an answered attempt of each call, at a server.
func (b *bench) answer(server string, calls ...*Call) {
	for _, c := range calls {
		b.log.Answered(c, func() string { return server })
	}
}

// end ends a call, while so many others wait.
func (b *bench) end(c *Call, others int64) { b.log.End(c, others) }

// fail is a failed attempt of each call.
func (b *bench) fail(server string, calls ...*Call) {
	for _, c := range calls {
		b.log.Failed(c, server, int64(len(calls)), errRefused)
	}
}

const (
	warns = "no usable server for waiting calls"
	again = "waiting calls have a usable server again"
	gone  = "no call waits for the server any more"
)

// require checks how many lines there are of each text.
func (b *bench) require(warnings, answers, ends int) {
	b.Helper()
	synctest.Wait()
	require.Equal(b, warnings, b.lines.Lines("level=WARN", warns), b.lines)
	require.Equal(b, answers, b.lines.Lines("level=INFO", again), b.lines)
	require.Equal(b, ends, b.lines.Lines("level=INFO", gone), b.lines)
	require.Equal(b, warnings+answers+ends, b.lines.Lines("level="), b.lines)
}

func (b *bench) begin() *Call {
	c := b.log.Begin()
	return &c
}

// A call that gets no answer is logged after a second, then every 30 s, and
// once it gets one.
func TestWarnsWhileThereIsNoAnswer(t *testing.T) {
	onBench(t, func(b *bench) {
		c := b.begin()
		b.fail("h:1", c)
		time.Sleep(Patience - 1)
		b.fail("h:1", c)
		b.require(0, 0, 0)
		time.Sleep(time.Nanosecond)
		for range 30 {
			b.fail("h:1", c)
			b.require(1, 0, 0)
			time.Sleep(time.Second)
		}
		b.fail("h:1", c)
		b.require(2, 0, 0)
		require.Equal(t, 2, b.lines.Lines(`server=h:1 since=2000-01-01T`, ` waiting=1 reason="connection refused"`), b.lines)
		b.answer("h:1", c)
		b.require(2, 1, 0)
		require.Equal(t, 1, b.lines.Lines(again+`" server=h:1 since=`), b.lines)
		b.end(c, 0)
		b.require(2, 1, 0)
	})
}

// An attempt that hangs counts from the begin of its call. One after an answer
// counts from its failure.
func TestAttemptThatHangs(t *testing.T) {
	onBench(t, func(b *bench) {
		c := b.begin()
		time.Sleep(5 * time.Second)
		b.fail("h:1", c)
		b.require(1, 0, 0)
		b.answer("h:1", c)
		b.require(1, 1, 0)
		time.Sleep(time.Hour)
		b.fail("h:1", c)
		time.Sleep(Patience - 1)
		b.fail("h:1", c)
		b.require(1, 1, 0)
		time.Sleep(time.Nanosecond)
		b.fail("h:1", c)
		b.require(2, 1, 0)
	})
}

// A failure that is over within a second is no outage, however often it comes.
func TestHiccup(t *testing.T) {
	onBench(t, func(b *bench) {
		c := b.begin()
		for range 100 {
			b.fail("h:1", c)
			time.Sleep(Patience - 1)
			b.answer("h:1", c)
		}
		b.end(c, 0)
		b.require(0, 0, 0)
	})
}

// However many calls wait, one line says it for all. The first answer ends it.
func TestManyCalls(t *testing.T) {
	onBench(t, func(b *bench) {
		calls := make([]*Call, 1000)
		for i := range calls {
			calls[i] = b.begin()
		}
		for range 3 {
			b.fail("h:1", calls...)
			time.Sleep(time.Second)
		}
		b.require(1, 0, 0)
		require.Equal(t, 1, b.lines.Lines(" waiting=1000 "), b.lines)
		for _, c := range calls {
			b.answer("h:1", c)
		}
		b.require(1, 1, 0)
	})
}

// The last call that leaves without an answer ends the outage: nobody waits.
// A call that waits behind another one of its process does not count as failed.
func TestCallsThatLeave(t *testing.T) {
	onBench(t, func(b *bench) {
		first, second := b.begin(), b.begin()
		time.Sleep(Patience)
		b.fail("h:1", first)
		b.require(1, 0, 0)
		b.end(first, 1)
		b.fail("h:1", second)
		b.require(1, 0, 0)
		b.end(second, 0)
		b.require(1, 0, 1)
		late := b.begin()
		time.Sleep(Patience)
		b.fail("h:1", late)
		b.require(1, 0, 1)
		b.end(late, 0)
		b.require(1, 0, 1)
	})
}

// A server may serve some calls and not others. Their answers end nothing, and
// do not begin the second anew.
func TestAnswersToOtherCalls(t *testing.T) {
	onBench(t, func(b *bench) {
		c := b.begin()
		for range 10 {
			b.fail("h:1", c)
			time.Sleep(Patience / 10)
			b.answer("h:1", b.begin())
		}
		b.fail("h:1", c)
		b.require(1, 0, 0)
		b.answer("h:1", b.begin())
		b.require(1, 0, 0)
	})
}

// A server that serves every second call is logged twice in 30 s at most.
func TestServerThatComesAndGoes(t *testing.T) {
	onBench(t, func(b *bench) {
		for range 60 {
			c, unlucky := b.begin(), b.begin()
			b.fail("h:1", c, unlucky)
			time.Sleep(Patience)
			b.fail("h:1", c, unlucky)
			b.answer("h:1", c)
			b.end(unlucky, 0)
		}
		b.require(2, 2, 0)
	})
}

// If the calls that have failed are gone, the next answer ends the outage. It
// does not if it comes from another server.
func TestAnswerAfterTheCallsThatFailed(t *testing.T) {
	onBench(t, func(b *bench) {
		c, other := b.begin(), b.begin()
		time.Sleep(Patience)
		b.fail("h:1", c)
		b.end(c, 1)
		b.answer("h:2", other)
		b.require(1, 0, 0)
		b.answer("h:1", other)
		b.require(1, 1, 0)
		require.Zero(t, b.log.open.Load())
	})
}

// Each server is logged separately. A call that moves on has left the first.
func TestSeveralServers(t *testing.T) {
	onBench(t, func(b *bench) {
		a, c := b.begin(), b.begin()
		time.Sleep(Patience)
		b.fail("h:1", a)
		b.fail("h:2", c)
		b.require(2, 0, 0)
		b.fail("h:2", a)
		b.require(2, 0, 1)
		require.Equal(t, 1, b.lines.Lines(gone, "server=h:1"), b.lines)
		b.answer("h:1", a)
		b.require(2, 1, 1)
		b.answer("h:1", c)
		b.require(2, 1, 1)
		d := b.begin()
		time.Sleep(Patience)
		b.fail("", d)
		b.require(3, 1, 1)
		require.Equal(t, 1, b.lines.Lines(warns+`" since=`), b.lines)
		b.end(d, 0)
	})
}
