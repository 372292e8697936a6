package proof

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/faults"
)

// grantOnItsWay is a process that is stopped while it waits for the answer to
// its acquire.
type grantOnItsWay struct {
	kind, mode string
	taken      bool // the lock is another's when the process goes on
	key        string
	child      *faults.Child
	stopped    chan struct{} // closed then: the answer may come
	answered   <-chan struct{}
	early      bool // the answer, or the end of the call, came before the stop: nothing is shown
	continued  int64
	next       relock.Hold
	content    string
}

// A process is stopped while the grant is on its way, and continues after the
// lease. It never gets a hold that has ended. A blocking call gets the lock
// later, when it is free.
func TestStoppedWhileTheGrantIsOnItsWay(t *testing.T) {
	t.Parallel()
	b := newPauseBench(t, 3*time.Second)
	var grants []*grantOnItsWay
	for _, kind := range kindsOfLocks {
		for _, mode := range []string{"once", "blocking"} {
			for _, taken := range []bool{false, true} {
				g := &grantOnItsWay{kind: kind, mode: mode, taken: taken, key: fmt.Sprint(kind, mode, taken)}
				g.begin(b)
				grants = append(grants, g)
			}
		}
	}
	for _, g := range grants {
		<-g.answered
		b.await(g.key, false)
	}
	for _, g := range grants {
		g.goOn(b)
	}
	shown := 0
	for _, g := range grants {
		if g.early {
			b.Logf("%s: this machine is too slow to stop a process within %v", g.key, b.lease/3)
		} else {
			g.judge(b)
			shown++
		}
		g.child.Kill()
	}
	require.GreaterOrEqual(t, 2*shown, len(grants), "hardly any process was stopped in time")
}

// begin stops the process when the server has granted the lock and the proxy
// keeps the answer.
func (g *grantOnItsWay) begin(b *pauseBench) {
	b.Helper()
	g.stopped = make(chan struct{})
	g.answered = b.proxy.On(ofKey(g.key), 1, faults.DelayUntil(g.stopped))
	g.child = b.spawn(g.kind, g.key, g.mode)
	g.child.Send("acquire")
	b.await(g.key, true)
	g.child.Stop()
	close(g.stopped)
}

// goOn continues the process, with the lock in another's hand or free.
func (g *grantOnItsWay) goOn(b *pauseBench) {
	b.Helper()
	g.early = len(eventsNamed(g.child.Events(), "acquire")) > 0
	if g.taken {
		g.next = b.succeed(g.kind, g.key)
		g.content = b.content(g.key)
	}
	g.continued = faults.Now()
	g.child.Continue()
}

func (g *grantOnItsWay) judge(b *pauseBench) {
	b.Helper()
	if g.mode == "once" {
		result := g.child.Next("acquire", patience)
		require.Equal(b, "false", result.Values[0], "%s: granted", g.key)
		b.Logf("%s: %s", g.key, result.Values[3])
		if g.taken {
			require.Equal(b, g.content, b.content(g.key))
			require.NoError(b, g.next.Unlock(context.Background()))
		}
		b.await(g.key, false)
		return
	}
	freed := g.continued
	if g.taken {
		// The grant that came too late was outside of the queue.
		require.True(b, b.proxy.Await(bothMatch(ofKey(g.key), faults.Script(b.digests["enqueue"])), 1, patience),
			"it goes on waiting")
		require.Equal(b, g.content, b.content(g.key))
		freed = faults.Now()
		require.NoError(b, g.next.Unlock(context.Background()))
	}
	result := g.child.Next("acquire", patience)
	require.Equal(b, []string{"true", "true"}, result.Values[:2], "%s: granted and valid", g.key)
	require.Greater(b, result.Int(2), freed)
	b.await(g.key, true)
}
