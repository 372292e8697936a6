package lua_test

import (
	"cmp"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/locktest"
)

// sharded is a client whose messages go to sharded channels.
const sharded = "c1~"

// sending is a script that sends messages to the sharded client.
type sending struct {
	texts []string
	send  func() string // returns the receivers in the answer; "" if it has none
	queue string        // the key of the channel
}

// senders are the scripts that send messages. Each prepares its state.
var senders = map[string]func(*Queue) sending{
	"enqueue": func(b *Queue) sending {
		b.RequireDone(WaitNamed("c9", 1, "pf").Try())
		call := WaitNamed(sharded, 1, "pf").Enqueue()
		return sending{texts: []string{""}, send: func() string { b.Ask(call); return "" }}
	},
	"poll": func(b *Queue) sending {
		return sending{texts: []string{""}, send: func() string { return b.Ask(PollAs(sharded))[3] }}
	},
	"rw_poll": func(b *Queue) sending {
		return sending{texts: []string{""}, send: func() string { return b.Ask(RWPollAs(sharded))[3] }}
	},
	"release": func(b *Queue) sending {
		holder, w := WaitNamed("c9", 1, "pf"), WaitNamed(sharded, 1, "pf")
		b.RequireDone(holder.Try())
		b.Queued(w)
		return notifying(b, holder.Release(), string(w))
	},
	"rw_release": func(b *Queue) sending {
		holder, x, y := WaitNamed("c9", 1, "wf"), WaitNamed(sharded, 1, "sf"), WaitNamed(sharded, 2, "sf")
		b.RequireDone(holder.Try())
		b.Queued(x, y)
		return notifying(b, holder.Release(), string(x), string(y))
	},
	"force": func(b *Queue) sending {
		holder := WaitNamed(sharded, 1, "rf")
		b.RequireDone(holder.Try())
		return notifying(b, frees(holder), "forced:"+holder.Hold())
	},
	"rw_force": func(b *Queue) sending {
		holder := WaitNamed(sharded, 1, "wf")
		b.RequireDone(holder.Try())
		return notifying(b, frees(holder), "forced:"+holder.Hold())
	},
	"redlock_acquire": func(b *Queue) sending {
		b.Store(Plain3)
		call := wants(script.RedLockWait, Plain1, sharded+":1:q")
		return sending{texts: []string{""}, send: func() string { return b.Ask(call)[4] }}
	},
	"redlock_release": func(b *Queue) sending {
		holder := locktest.RedValue("h1", 1)
		n := newRedNode(b, server, holder, sharded+":1:q")
		n.Less = b.Less
		return notifying(n.Queue, redRelease(holder, 0), sharded+":1:q")
	},
	"task_receive": func(b *Queue) sending {
		q := NewTasks(b, server)
		q.Less = b.Less
		return sending{texts: []string{""}, queue: q.Q, send: func() string {
			return fmt.Sprint(q.Receive(Receive{Receiver: sharded + ":1", N: 1, Want: 1, Heartbeat: 1}).Heard)
		}}
	},
	"task_enqueue": func(b *Queue) sending {
		q := NewTasks(b, server)
		q.Less = b.Less
		q.Do("ZADD", q.Key("i"), q.Now(), sharded+":1")
		return sending{
			texts: []string{"tasks:" + sharded + ":1 " + q.Q}, queue: q.Q, send: func() string { q.Enqueue("", "a"); return "" },
		}
	},
}

// notifying returns a call that names each of these to the client.
func notifying(b *Queue, call script.Call, named ...string) sending {
	s := sending{send: func() string { b.Ask(call); return "" }}
	for _, name := range named {
		s.texts = append(s.texts, name+" "+b.Key)
	}
	return s
}

// A message to a sharded client goes to the channel of the key. If nobody
// receives it there, or the script may not send it there, it goes to the
// client's channel for all locks.
func TestScriptsMessagesToShardedClients(t *testing.T) {
	for name, begin := range senders {
		for _, tt := range []struct {
			name           string
			denied         []any
			sharded, plain bool // the client listens
			hears          string
			receivers      string
		}{
			{"received", nil, true, true, "sharded", "1"},
			{"nobody receives it there", nil, false, true, "plain", "1"},
			{"nobody receives it", nil, false, false, "", "0"},
			{"refused there", []any{"-spublish"}, true, true, "plain", "1"},
			{"refused for all locks", []any{"-publish"}, true, true, "sharded", "1"},
			{"nobody receives it there, refused for all locks", []any{"-publish"}, false, true, "", "0"},
			{"refused", []any{"-spublish", "-publish"}, true, true, "", "-1"},
		} {
			t.Run(name+"/"+tt.name, func(t *testing.T) {
				b := NewQueue(t, server)
				if tt.denied != nil {
					b.Deny(tt.denied...)
				}
				s := begin(b)
				heard := map[string]*Listener{}
				if tt.sharded {
					heard["sharded"] = b.ListenSharded(cmp.Or(s.queue, b.Key), sharded)
				}
				if tt.plain {
					heard["plain"] = b.Listen(sharded)
				}
				if got := s.send(); got != "" {
					require.Equal(t, tt.receivers, got)
				}
				for channel, l := range heard {
					if channel == tt.hears {
						require.Equal(t, s.texts, l.Heard())
					} else {
						require.Empty(t, l.Heard(), channel)
					}
				}
			})
		}
	}
}
