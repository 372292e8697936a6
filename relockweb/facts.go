package relockweb

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/display"
)

// seen identifies what a viewer has seen of a lock. A change is refused if it
// is another one by then.
func seen(i relock.Info) string {
	var parts []string
	for _, h := range display.Holders(i) {
		parts = append(parts, h.Client+" "+strconv.FormatInt(h.Since.UnixNano(), 10))
	}
	slices.Sort(parts)
	return string(i.State) + " " + strings.Join(parts, ",")
}

// byWait orders locks, those with the longest wait first.
func byWait(a, b relock.Info) int {
	return cmp.Or(cmp.Compare(display.LongestWait(b), display.LongestWait(a)), cmp.Compare(a.Key, b.Key))
}

// summary says what there is of locks and queues, in one line. It counts what
// was read.
func summary(v view) string {
	held, waiters, awaited, longest, late := 0, 0, 0, time.Duration(0), 0
	for _, i := range v.Locks {
		longest = max(longest, display.LongestWait(i))
		if i.State == relock.StateHeld {
			held++
		}
		if waiters += i.Waiting; i.Waiting > 0 {
			awaited++
		}
	}
	for _, q := range v.Queues {
		if isLate(q.Stats.Oldest) {
			late++
		}
	}
	text := fmt.Sprintf("%d locks held", held)
	if waiters > 0 {
		text += fmt.Sprintf("; %d waiters for %d locks, the longest for %s", waiters, awaited, brief(longest))
	}
	if late > 0 {
		text += fmt.Sprintf("; %d queues late", late)
	}
	return text
}

// isLate reports whether a wait is to be seen at a glance.
func isLate(d time.Duration) bool { return d > time.Minute }

// nameOf names a holder by what it wrote.
func nameOf(h relock.Holder) string {
	switch {
	case h.Host == "":
		return "client " + h.Client
	case h.Label == "":
		return fmt.Sprintf("%s:%d", h.Host, h.PID)
	}
	return fmt.Sprintf("%s @ %s:%d", h.Label, h.Host, h.PID)
}

// brief returns a duration as people say it.
func brief(d time.Duration) string {
	switch {
	case d < 0:
		return "no expiry"
	case d < time.Second:
		return d.Round(100 * time.Microsecond).String()
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// ageAt returns the age of a time by the holder's clock, which may be ahead.
func ageAt(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	return brief(max(0, now.Sub(t)))
}
