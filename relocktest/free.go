package relocktest

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
)

// stack is the callers of a call, the nearest first.
type stack []uintptr

// callers returns the callers of Lock or TryLock.
func callers() stack {
	var pcs [32]uintptr
	n := runtime.Callers(5, pcs[:]) // without Callers, callers, acquire, take and Lock
	return slices.Clone(pcs[:n])
}

func (s stack) String() string {
	var text strings.Builder
	for frames := runtime.CallersFrames(s); ; {
		frame, more := frames.Next()
		fmt.Fprintf(&text, "\t%s\n\t\t%s:%d\n", frame.Function, frame.File, frame.Line)
		if !more {
			return text.String()
		}
	}
}

// RequireFree calls fail, once, if calls of this Locker hold locks. The text
// has the names of the locks, and for each hold the stack of the call that
// acquired it. Locks of [Locker.Busy] and the rest of a minimum hold do not
// count. Call it at the end of a test, with t.Errorf:
//
//	defer locker.RequireFree(t.Errorf)
func (l *Locker) RequireFree(fail func(format string, args ...any)) {
	names, holds := l.held()
	if len(names) > 0 {
		fail("locks are held: %q\n%s", names, holds)
	}
}

// held returns the names of the locks that are held, and a text of the holds.
func (l *Locker) held() (names []string, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(l.locks)) {
		g := l.locks[key].holder
		if g == nil || g.checkedLocked() {
			continue
		}
		names = append(names, key)
		for _, h := range g.levels.All {
			text += fmt.Sprintf("%q was acquired by\n%s", key, h.by)
		}
	}
	return names, text
}
