package background

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
)

// Links are the dedicated connections of Close, one for each node. The workers
// send nothing any more.
type Links struct {
	driver driver.Driver
	end    time.Time

	mu    sync.Mutex
	links map[driver.Node]driver.Link
	timer *time.Timer
}

// NewLinks returns links that are closed at end. A dial may take longer than
// that, and each batch would dial again.
func NewLinks(d driver.Driver, end time.Time) *Links {
	l := &Links{driver: d, end: end, links: map[driver.Node]driver.Link{}}
	l.timer = time.AfterFunc(time.Until(end), l.closeAll)
	return l
}

// Close closes the links.
func (l *Links) Close() {
	l.timer.Stop()
	l.closeAll()
}

func (l *Links) closeAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, link := range l.links {
		link.Close()
	}
}

func (l *Links) to(n driver.Node) driver.Link {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.links[n] == nil {
		l.links[n] = n.Link()
	}
	return l.links[n]
}

// SendUntil runs scripts until end, to all nodes in parallel. It returns a
// result for each. The scripts that it does not reach get ErrTimeout.
func (l *Links) SendUntil(end time.Time, all []script.Call) []driver.Result {
	outcomes := make([]driver.Result, len(all))
	var group sync.WaitGroup
	for node, at := range l.byNode(all) {
		group.Go(func() {
			for i, o := range sendUntil(end, l.to(node), pick(all, at)) {
				outcomes[at[i]] = o
			}
		})
	}
	group.Wait()
	return outcomes
}

// byNode returns the indexes of the scripts for each node.
func (l *Links) byNode(all []script.Call) map[driver.Node][]int {
	ctx, cancel := context.WithDeadline(context.Background(), l.end)
	defer cancel()
	nodes := map[driver.Node][]int{}
	for i, s := range all {
		key := s.Keys()[0]
		n, err := l.driver.Home(ctx, key)
		if err != nil {
			n = l.driver.Known(key)
		}
		nodes[n] = append(nodes[n], i)
	}
	return nodes
}

func pick(all []script.Call, at []int) (some []script.Call) {
	for _, i := range at {
		some = append(some, all[i])
	}
	return some
}

// sendUntil runs scripts over a link, in batches, until end.
func sendUntil(end time.Time, link driver.Link, all []script.Call) (outcomes []driver.Result) {
	for batch := range slices.Chunk(all, maxBatch) {
		left := time.Until(end)
		if left <= 0 {
			outcomes = append(outcomes, slices.Repeat([]driver.Result{{Err: driver.ErrTimeout}}, len(batch))...)
			continue
		}
		outcomes = append(outcomes, script.RunBatch(link, driver.BatchLimit{Own: left, Borrowed: left}, batch, nil)...)
	}
	return outcomes
}
