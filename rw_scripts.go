package relock

import (
	"time"

	"github.com/relock-go/relock/internal/script"
)

// queueing is the scripts with which the waits of some kinds of locks queue. All of them share the queue of a lock, the
// messages and the polls.
type queueing struct{ try, enqueue, claim, cancel, poll *script.Script }

var (
	mutexScripts = &queueing{script.Try, script.Enqueue, script.Claim, script.Cancel, script.Poll}
	rwScripts    = &queueing{script.RWTry, script.RWEnqueue, script.RWClaim, script.RWCancel, script.RWPoll}
)

// The kinds of waits for a read/write lock. Those for others are p and r.
const (
	sharedWait = 's'
	writeWait  = 'w'
)

func (w *queued) scripts() *queueing { return scriptsFor(w.kind) }

func scriptsFor(kind byte) *queueing {
	if kind == sharedWait || kind == writeWait {
		return rwScripts
	}
	return mutexScripts
}

// scriptsOf is scriptsFor by the name of a wait.
func scriptsOf(wait string) *queueing {
	if _, rest := cutHold(wait); rest != "" {
		return scriptsFor(rest[0])
	}
	return mutexScripts
}

// rwProtocol enters, renews and releases a hold of a read/write lock.
type rwProtocol struct {
	redisKey, hold string
	writes         int // of the levels, those that write
}

// writing is the protocol for a hold of which so many levels write.
func (p rwProtocol) writing(levels int) rwProtocol {
	p.writes = levels
	return p
}

func (p rwProtocol) enter(reads, writes, seq int, lease time.Duration) script.Call {
	return script.Call{Script: script.RWEnter, Key: p.redisKey, Args: []any{p.hold, reads, writes, seq, lease.Milliseconds()}}
}

func (p rwProtocol) renew(lease time.Duration) script.Call {
	return script.Call{Script: script.RWRenew, Key: p.redisKey, Args: []any{p.hold, lease.Milliseconds()}}
}

func (p rwProtocol) stored() (redisKey, hold string) { return p.redisKey, p.hold }

// release does not keep the key: a read/write lock has no minimum hold.
func (p rwProtocol) release(levels, seq int, _ time.Duration) script.Call {
	writes := min(p.writes, levels)
	return script.Call{Script: script.RWRelease, Key: p.redisKey, Args: []any{p.hold, levels - writes, writes, seq}}
}

// rwInfo is what a read/write lock stores of a holder.
func (i identity) rwInfo(label string) string {
	return "relock/1|s" + i.process + label + "|" + since()
}
