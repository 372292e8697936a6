package holds

import (
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
)

// profileName is the name of the profile of holds. It is the only name that the
// module gives to something of the whole process.
const profileName = "relock"

// OfProcess returns the profile of the holds of this process. The first call
// makes it, unless the program has one with this name.
var OfProcess = sync.OnceValue(func() *pprof.Profile {
	if p := pprof.Lookup(profileName); p != nil {
		return p
	}
	return pprof.NewProfile(profileName)
})

// stackDepth is how many callers are kept of an acquiring call, to find the one
// outside of the module.
const stackDepth = 24

// profiled is what a hold needs for a profile.
type profiled struct {
	profile *pprof.Profile
	callers []uintptr // of the call that acquired
}

// newProfiled returns what a hold needs for this profile, or nil without one.
func newProfiled(profile *pprof.Profile) *profiled {
	if profile == nil {
		return nil
	}
	return &profiled{profile: profile}
}

// enter adds the hold to its profile, with the stack of the caller of Announce.
// mu must be held.
func (r *Report) enter() {
	if r.profiled == nil {
		return
	}
	var callers [stackDepth]uintptr
	n := runtime.Callers(4, callers[:]) // without Callers, enter and the two Announce
	r.profiled.callers = append([]uintptr(nil), callers[:n]...)
	r.profiled.profile.Add(r, 3)
}

// leave removes the hold from its profile.
func (r *Report) leave() {
	if r.profiled != nil {
		r.profiled.profile.Remove(r)
	}
}

// AcquiredAt returns the file and the line of the call that acquired the hold,
// such as "main.go:31". It is empty without a profile.
func (r *Report) AcquiredAt() string {
	if r == nil || r.profiled == nil {
		return ""
	}
	r.mu.Lock()
	callers := r.profiled.callers
	r.mu.Unlock()
	if len(callers) == 0 {
		return ""
	}
	for frames := runtime.CallersFrames(callers); ; {
		frame, more := frames.Next()
		if !isOurs(frame.Function) || !more {
			return filepath.Base(frame.File) + ":" + strconv.Itoa(frame.Line)
		}
	}
}

// isOurs reports whether a function is of the packages between a caller and its
// hold.
func isOurs(function string) bool {
	const module = "github.com/relock-go/relock"
	return strings.HasPrefix(function, module+".") || strings.HasPrefix(function, module+"/internal/") ||
		strings.HasPrefix(function, module+"/queue.")
}
