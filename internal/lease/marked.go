package lease

import (
	"time"

	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/validity"
)

// marked is a lease as far as it looks whether it is marked to end by force. A
// renewal finds the mark. A lease that is not renewed sends one for a moment
// from time to time, which shortens nothing.
type marked struct{ *Lease }

// minLook is the shortest pause between two looks. A lease that is no longer
// has none: it ends soon.
const minLook = time.Second

// next returns the request that looks for the mark, unless the lease has ended,
// or is too short.
func (l marked) next() (script.Call, bool) {
	if l.pause() == 0 || l.Check() != nil {
		return script.Call{}, false
	}
	return l.protocol.Renew(validity.CheckLength), true
}

// handle is Handle for a look. One that fails is not repeated soon: the lease
// lasts, and the next one finds the mark too.
func (l marked) handle(o driver.Result) (time.Time, bool) {
	if o.Err != nil || validity.IsThere(o) {
		return time.Time{}, false
	}
	return time.Now(), l.NotOurs(o.Reply)
}

// lookAt returns when to look next, and whether to look at all.
func (l marked) lookAt(now time.Time) (time.Time, bool) {
	pause := l.pause()
	if pause == 0 || l.Check() != nil {
		return time.Time{}, false
	}
	return now.Add(validity.Jitter(pause)), true
}

// pause returns a third of the lease within its limits, or 0 if the lease is
// too short to look.
func (l marked) pause() time.Duration {
	lease := l.Settings.Lease
	if lease <= minLook {
		return 0
	}
	return min(max(lease/3, minLook), validity.MaxPause)
}
