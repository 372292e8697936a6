package holds

import "slices"

// Levels are the holds that share one grant. The mutex of the grant must be
// held for all methods.
type Levels[H comparable] struct {
	All  []H // not unlocked yet, oldest first
	Live int // how many of them have not ended
}

// Push adds the newest level.
func (l *Levels[H]) Push(h H) {
	l.All = append(l.All, h)
	l.Live++
}

// Drop removes a level that was unlocked. It reports whether it was the last.
func (l *Levels[H]) Drop(h H) bool {
	for i, other := range slices.Backward(l.All) {
		if other == h {
			l.All = slices.Delete(l.All, i, i+1)
			break
		}
	}
	return len(l.All) == 0
}
