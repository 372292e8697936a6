package relockweb

import (
	"fmt"
	"slices"
	"strings"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/display"
)

// wait is that a client waits for a lock of another client.
type wait struct {
	key    string
	holder relock.Holder
}

// circles returns texts about clients that may wait for each other. It compares
// clients, not goroutines, so a circle need not be a deadlock.
func circles(locks []relock.Info) (all []string) {
	waits := waitsOf(locks)
	told := map[string]bool{} // clients of circles that were found
	for _, i := range locks {
		for _, h := range display.Holders(i) {
			if told[h.Client] {
				continue
			}
			path := walk(waits, h.Client, h.Client, nil, map[string]bool{})
			for _, w := range path {
				told[w.holder.Client] = true
			}
			if path != nil {
				all = append(all, tell(path))
			}
		}
	}
	return all
}

// waitsOf returns what each client waits for.
func waitsOf(locks []relock.Info) map[string][]wait {
	waits := map[string][]wait{}
	for _, i := range locks {
		if i.State != relock.StateHeld {
			continue
		}
		for _, w := range i.Waiters {
			for _, h := range display.Holders(i) {
				if h.Client != w.Client {
					waits[w.Client] = append(waits[w.Client], wait{i.Key, h})
				}
			}
		}
	}
	return waits
}

// walk returns the way from a client to the first one, or nil.
func walk(waits map[string][]wait, first, client string, path []wait, visited map[string]bool) []wait {
	for _, w := range waits[client] {
		next := append(slices.Clone(path), w)
		if w.holder.Client == first {
			return next
		}
		if visited[w.holder.Client] {
			continue
		}
		visited[w.holder.Client] = true
		if found := walk(waits, first, w.holder.Client, next, visited); found != nil {
			return found
		}
	}
	return nil
}

// tell describes a circle.
func tell(path []wait) string {
	parts := make([]string, len(path))
	for n, w := range path {
		before := path[(n+len(path)-1)%len(path)].holder
		parts[n] = fmt.Sprintf("%s waits for %s", display.Plain(nameOf(before)), display.Plain(w.key))
	}
	return strings.Join(parts, "; ")
}
