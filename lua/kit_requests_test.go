package lua_test

import (
	"time"

	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/script"
)

// Durations of the scripts' tests: a lease, a longer one, and how long a test
// may take.
const (
	Lease     = 20 * time.Second
	LongLease = 60 * time.Second
	Keep      = 5 * time.Second
	Slack     = 4 * time.Second
)

// The holds of a plain lock: two of our own, and one of another client.
const (
	Plain1 = "relock/1|p|h1|c1|host|1|label|1"
	Plain2 = "relock/1|p|h2|c1|host|1|label|2"
	Plain3 = "relock/1|p|h3|c2|host|2|label|3"
)

// AcquireOf returns the request that acquires a plain lock.
func AcquireOf(value, earlier string, lease time.Duration) script.Call {
	return script.Call{Script: script.Acquire, Args: []any{value, earlier, lease.Milliseconds()}}
}

// RenewOf returns the request that renews a plain lock.
func RenewOf(value string, lease time.Duration) script.Call {
	return script.Call{Script: script.Renew, Args: []any{value, lease.Milliseconds()}}
}

// ReleaseOf returns the request that releases a plain lock.
func ReleaseOf(value string, keep time.Duration) script.Call {
	return script.Call{Script: script.Release, Args: []any{value, keep.Milliseconds(), lockspec.KeptValue(value)}}
}

// The owners of a reentrant lock and their holds: two of our own, and one of
// another client.
const (
	OwnerUs   = "c1:g:1"
	OwnerThem = "c2:g:1"
	Hold1     = "h1"
	Hold2     = "h2"
	Hold3     = "h3"
)

// ReentrantAcquireOf returns the request that acquires a reentrant lock.
func ReentrantAcquireOf(owner, hold string, lease time.Duration) script.Call {
	return script.Call{Script: script.ReentrantAcquire, Args: []any{owner, hold, lease.Milliseconds(), "info"}}
}

// EnterOf returns the request of OwnerUs for count levels.
func EnterOf(hold string, count, seq int, lease time.Duration) script.Call {
	return script.Call{Script: script.ReentrantEnter, Args: []any{OwnerUs, hold, count, seq, lease.Milliseconds()}}
}

// ReentrantRenewOf returns the request that renews a reentrant lock.
func ReentrantRenewOf(hold string, lease time.Duration) script.Call {
	return script.Call{Script: script.ReentrantRenew, Args: []any{hold, lease.Milliseconds()}}
}

// ReentrantReleaseOf returns the release request of OwnerUs.
func ReentrantReleaseOf(hold string, count, seq int, keep time.Duration) script.Call {
	return script.Call{Script: script.ReentrantRelease, Args: []any{OwnerUs, hold, count, seq, keep.Milliseconds()}}
}

// AndThen returns the steps followed by more.
func AndThen(steps []script.Call, more ...script.Call) []script.Call {
	return append(append([]script.Call(nil), steps...), more...)
}

// The states of a key. Each change of a reentrant hold has the number that the
// owner would give it.
var (
	NoKey     []script.Call
	PlainHeld = []script.Call{AcquireOf(Plain1, "", Lease)}
	PlainNext = AndThen(PlainHeld, ReleaseOf(Plain1, 0), AcquireOf(Plain2, "", Lease))
	PlainTook = AndThen(PlainHeld, ReleaseOf(Plain1, 0), AcquireOf(Plain3, "", Lease))
	PlainKept = AndThen(PlainHeld, ReleaseOf(Plain1, Keep))

	HeldOnce  = []script.Call{ReentrantAcquireOf(OwnerUs, Hold1, Lease)}
	HeldTwice = AndThen(HeldOnce, EnterOf(Hold1, 2, 2, Lease))
	HeldThree = AndThen(HeldTwice, EnterOf(Hold1, 3, 3, Lease))
	HeldBack  = AndThen(HeldTwice, ReentrantReleaseOf(Hold1, 1, 3, 0))
	HeldAgain = AndThen(HeldBack, EnterOf(Hold1, 2, 4, Lease))
	HeldNext  = AndThen(HeldOnce, ReentrantReleaseOf(Hold1, 0, 2, 0), ReentrantAcquireOf(OwnerUs, Hold2, Lease))
	HeldNext2 = AndThen(HeldNext, EnterOf(Hold2, 2, 2, Lease))
	HeldOther = AndThen(HeldOnce, ReentrantReleaseOf(Hold1, 0, 2, 0), ReentrantAcquireOf(OwnerThem, Hold3, Lease))
	HeldKept  = AndThen(HeldOnce, ReentrantReleaseOf(Hold1, 0, 2, Keep))
)

// OwnerNext is another owner of the same client.
const OwnerNext = "c1:g:2"

// TransferOf returns the request that hands off a reentrant hold.
func TransferOf(from, to string, lease time.Duration) script.Call {
	return script.Call{
		Script: script.ReentrantTransfer, Args: []any{from, OwnerUs, to, OwnerNext, lease.Milliseconds(), "next"},
	}
}

// ReleaseOfEither returns the release of a hold that may have been transferred.
func ReleaseOfEither(hold, successor string) script.Call {
	s := ReentrantReleaseOf(hold, 0, 9, 0)
	s.Args = append(s.Args, "", successor)
	return s
}

// Given returns the hash of a hold with one level.
func Given(owner, hold, info string) map[string]string {
	return map[string]string{owner: "1", "hold": hold, "seq": "#1", "info": info}
}

// Fenced returns the call of the script's fenced variant.
func Fenced(s script.Call) script.Call {
	s.Script = s.Script.Fenced
	return s
}
