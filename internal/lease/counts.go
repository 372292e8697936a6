package lease

import "iter"

// Holding yields the newest hold of each lock that the manager has.
func (m *Manager) Holding() iter.Seq[*Hold] {
	return func(yield func(*Hold) bool) {
		for _, l := range m.allLeases() {
			if h := l.newest(func(*Hold) bool { return true }); h != nil && !yield(h) {
				return
			}
		}
	}
}
