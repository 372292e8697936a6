package lease

import (
	"slices"

	"github.com/relock-go/relock/internal/errs"
)

// Forced handles the message that a hold is to end by force. The message is
// only a hint to read the notice.
func (m *Manager) Forced(ended, redisKey string) {
	for _, held := range m.leasesOf(redisKey) {
		if l := (refusal{held}); slices.Contains(l.names(), ended) {
			m.Tasks.Start(func() {
				if err := l.notice(); err != nil {
					l.Lose(err)
				}
			})
		}
	}
}

// EndForced ends the holds of this client among those that it has itself ended
// by force.
func (m *Manager) EndForced(redisKey, reason string, names []string) {
	ended := map[string]bool{}
	for _, name := range names {
		ended[name] = true
	}
	for _, l := range m.leasesOf(redisKey) {
		if slices.ContainsFunc(refusal{l}.names(), func(name string) bool { return ended[name] }) {
			l.Lose(errs.Forced(reason))
		}
	}
}
