package holds

import (
	"fmt"
	"log/slog"
	"slices"
	"time"
)

// maxNamed is how many keys one line of the log names.
const maxNamed = 10

// WarnOfHeld logs the locks that a Close leaves at the server, and in how long
// the last of them is free. Without locks it logs nothing.
func WarnOfHeld(to *slog.Logger, keys []string, last time.Time) {
	if len(keys) == 0 {
		return
	}
	message := "relock: closed with 1 lock held"
	if len(keys) > 1 {
		message = fmt.Sprintf("relock: closed with %d locks held", len(keys))
	}
	to.Warn(message, "keys", Named(keys), "free_in", Remaining(last).Round(time.Millisecond))
}

// Named returns the keys that one line of the log names, sorted, and how many
// more there are. It reorders keys.
func Named(keys []string) []string {
	named := keys[:min(len(keys), maxNamed):min(len(keys), maxNamed)]
	slices.Sort(named)
	if more := len(keys) - len(named); more > 0 {
		named = append(named, fmt.Sprintf("and %d more", more))
	}
	return named
}
