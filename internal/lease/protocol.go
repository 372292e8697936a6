package lease

import (
	"time"

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

// Levels counts the levels of a hold. Writes counts those of a read/write lock
// that write.
type Levels struct{ All, Writes int }
