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
	if l.Check() != nil {
		return script.Call{}, false
	}
	l.Mu.Lock()
	defer l.Mu.Unlock()
	return l.protocol.Renew(validity.CheckLength), l.pause() > 0
}

// handle is Handle for a look. One that fails is not repeated soon: the lease
// lasts, and the next one finds the mark too.
func (l marked) handle(o driver.Result) (time.Time, bool) {
	if o.Err != nil || validity.IsThere(o) {
		return time.Time{}, false
	}
	return l.Refused(o.Reply)
}

// plan has a lease look that is not renewed, after it was granted or extended.
func (l marked) plan(now time.Time) {
	if at, ok := l.lookAt(now); ok {
		l.RunNow(at)
	}
}

// lookAt returns when to look next, and whether to look at all. There is no
// look near the end of the lease, or after it: the hold ends then anyhow.
func (l marked) lookAt(now time.Time) (time.Time, bool) {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	pause := l.pause()
	if pause == 0 || l.Over() != nil || l.Until().Sub(now) < pause*3/2 {
		return time.Time{}, false
	}
	return now.Add(validity.Jitter(pause)), true
}

// pause returns a third of the longest lease that was requested, within its
// limits, or 0 if the lease is too short to look; Mu must be held.
func (l marked) pause() time.Duration {
	if l.maxRequested <= minLook {
		return 0
	}
	return min(max(l.maxRequested/3, minLook), validity.MaxPause)
}
