package lease

import (
	"time"

	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/validity"
)

// Protocol builds the requests that renew and release a lock of one kind. That
// of a kind with owners is also an [Enterer], that of one that Transfers a
// [Transferrer], and that of one whose holds can be detached a [Detacher].
type Protocol interface {
	validity.Renewer
	// Release sets the levels to left. If none are left, it releases the key,
	// but not before keep has passed. seq is the number of this change.
	Release(left Levels, seq int, keep time.Duration) script.Call
	// HoldID returns the id of the hold there. It is empty if nobody can end
	// the hold by force.
	HoldID() string
}

// Enterer is the protocol of a kind with owners.
type Enterer interface {
	// Enter sets the levels to l.
	Enter(l Levels, seq int, lease time.Duration) script.Call
}

// Transferrer is the protocol of a kind whose locks can be transferred.
type Transferrer interface {
	Transfer(t *Transfer, lease time.Duration, info string) script.Call
	// HeldBy returns the protocol of another hold of the lock.
	HeldBy(owner, hold string) Protocol
}

// Detacher is the protocol of a kind whose holds can be detached.
type Detacher interface {
	// Detach gives the lock to the detached hold next, and returns how a
	// release names that.
	Detach(next string, i lockspec.Identity, s *lockspec.Spec, stay time.Duration) (call script.Call, successor string)
}

// Levels counts the levels of a hold. Writes counts those of a read/write lock
// that write.
type Levels struct{ All, Writes int }
