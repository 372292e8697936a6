package proof

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/faults"
)

const (
	movedKeys   = 12
	movedTakers = 12
	movedLease  = 500 * time.Millisecond
	movedFor    = 500 * time.Millisecond // how long a token is good
	movedMost   = 12                     // hand-overs of one hold
	movedTokens = "tokens"               // the list by which they travel
)

// mover locks keys, and hands some of the holds to other processes.
type mover struct {
	self     *faults.Self
	client   *relock.Client
	lists    *redis.Pool // to the server without faults
	sections sync.Mutex
	last     int
}

// moverRole moves holds until the test ends it. Arguments: network and address
// of the locks, and those of the list.
func moverRole(self *faults.Self, client *relock.Client) error {
	m := &mover{self: self, client: client, lists: &redis.Pool{MaxIdle: 16, Dial: func() (redis.Conn, error) {
		return redis.Dial(self.Args[2], self.Args[3])
	}}}
	ctx := self.Context()
	var group sync.WaitGroup
	for k := range movedKeys {
		group.Go(func() { m.lock(ctx, kindsOfLocks[k%2], fmt.Sprint("moved", k)) })
	}
	for range movedTakers {
		group.Go(func() { m.resume(ctx) })
	}
	group.Wait()
	return m.lists.Close()
}

// lock takes the lock again and again.
func (m *mover) lock(ctx context.Context, kind, key string) {
	lock := newLockOf(kind, key, m.client, relock.WithBlock(), relock.WithFencing(), relock.WithWatchdog(movedLease),
		relock.WithPollInterval(20*time.Millisecond))
	for ctx.Err() == nil {
		if hold, err := lock.Acquire(ctx); err == nil {
			m.visit(hold, 0)
		}
	}
}

// resume takes tokens from the list.
func (m *mover) resume(ctx context.Context) {
	for ctx.Err() == nil {
		conn := m.lists.Get()
		text, err := redis.Strings(conn.Do("BLPOP", movedTokens, 0.05))
		_ = conn.Close()
		if err != nil {
			continue
		}
		count, token, _ := strings.Cut(text[1], " ")
		n, _ := strconv.Atoi(count)
		hold, err := m.client.Resume(relock.ContextWithOwner(ctx, token[len(token)-20:]), token,
			relock.WithWatchdog(movedLease))
		if err == nil {
			m.visit(hold, n)
		}
	}
}

// visit is a critical section. It ends with a Detach or an Unlock.
func (m *mover) visit(hold relock.Hold, moves int) {
	from := faults.Now()
	m.sections.Lock()
	m.last++
	id := m.last
	m.sections.Unlock()
	m.self.Emit("began", hold.Key(), hold.Fence(), from, until(hold, from), id, moves)
	time.Sleep(rand.N(300 * time.Microsecond))
	m.self.Emit("ended", id, min(faults.Now(), until(hold, faults.Now())))
	if moves == movedMost || rand.IntN(4) == 0 {
		_ = hold.Unlock(context.Background())
		return
	}
	token, err := m.client.Detach(context.Background(), hold, movedFor)
	if err != nil {
		return
	}
	conn := m.lists.Get()
	_, _ = conn.Do("RPUSH", movedTokens, fmt.Sprint(moves+1, " ", token)) // a lost one expires
	_ = conn.Close()
}

// until returns the end of the hold's validity, or at if the hold has ended.
func until(hold relock.Hold, at int64) int64 {
	if end := hold.ValidUntil(); !end.IsZero() {
		return faults.Stamp(end)
	}
	return at
}
