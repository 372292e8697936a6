package cli

import (
	"fmt"
	"slices"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/display"
)

// The cells of a lock. Each is empty if there is nothing to say.

func kindOf(i relock.Info) string {
	if i.Fair {
		return string(i.Kind) + ",fair"
	}
	return string(i.Kind)
}

// holdersOf names one holder, and how many there are beside it.
func holdersOf(i relock.Info) string {
	all := display.Holders(i)
	switch len(all) {
	case 0:
		return ""
	case 1:
		return nameOf(all[0])
	}
	return fmt.Sprintf("%s,+%d", nameOf(all[0]), len(all)-1)
}

// nameOf names a holder by what it wrote of itself.
func nameOf(h relock.Holder) string {
	switch {
	case h.Host == "":
		return "client:" + h.Client
	case h.Label == "":
		return address(h)
	}
	return h.Label + "@" + address(h)
}

func address(h relock.Holder) string { return fmt.Sprintf("%s:%d", h.Host, h.PID) }

// sinceOf returns since when the first holder holds, or zero.
func sinceOf(i relock.Info) (first time.Time) {
	for _, h := range display.Holders(i) {
		if first.IsZero() || h.Since.Before(first) && !h.Since.IsZero() {
			first = h.Since
		}
	}
	return first
}

// ageOf compares the holder's clock with ours, which may be behind.
func ageOf(i relock.Info, now time.Time) string {
	since := sinceOf(i)
	if since.IsZero() {
		return ""
	}
	return brief(max(0, now.Sub(since)))
}

// stateOf returns the state of a lock, which is "forced" if a hold is marked to
// end by force.
func stateOf(i relock.Info) string {
	if slices.ContainsFunc(display.Holders(i), func(h relock.Holder) bool { return h.Forced }) {
		return "forced"
	}
	return string(i.State)
}

func leftOf(i relock.Info) string {
	switch {
	case i.Remaining == relock.NoExpiry:
		return "for-ever"
	case i.State == relock.StateFree:
		return ""
	}
	return brief(i.Remaining)
}

func waitOf(i relock.Info) string {
	if len(i.Waiters) == 0 {
		return ""
	}
	return brief(display.LongestWait(i))
}
