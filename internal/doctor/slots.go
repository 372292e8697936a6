package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redis/driver"
)

// slots looks for slots of a Cluster that are half moved. Each master knows its
// own ones only.
func (d *doctor) slots(ctx context.Context, masters []driver.Node) {
	half := map[int]string{}
	for _, m := range masters {
		text, err := driver.String(d.ask(ctx, m, "CLUSTER", "NODES"))
		switch {
		case errors.Is(err, relock.ErrDenied):
			d.find("slots", OK, "+cluster|nodes shows those that are half moved", "not known: %v", err)
			return
		case err != nil:
			d.find("slots", Warn, "look at CLUSTER NODES", "unknown: %v", err)
			return
		}
		maps.Copy(half, halfMoved(text))
	}
	if len(half) == 0 {
		d.find("slots", OK, "", "none is half moved")
		return
	}
	const most = 3
	var names []string
	for _, slot := range slices.Sorted(maps.Keys(half))[:min(len(half), most)] {
		names = append(names, fmt.Sprintf("%d %s", slot, half[slot]))
	}
	if len(half) > most {
		names = append(names, fmt.Sprintf("and %d more", len(half)-most))
	}
	const remedy = "end each move by CLUSTER SETSLOT ... NODE, or redis-cli --cluster fix: waiters of these slots pause"
	d.find("slots", Warn, remedy, "half moved: %s", strings.Join(names, ", "))
}

// halfMoved returns the slots that the server, which has answered CLUSTER NODES
// with text, gives or takes, and from where to where. It marks them as
// [slot->-target] and [slot-<-source].
func halfMoved(text string) map[int]string {
	half, addresses, own, marks := map[int]string{}, map[string]string{}, "", []string{}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 8 {
			continue
		}
		address, _, _ := strings.Cut(words[1], "@")
		addresses[words[0]] = address
		if slices.Contains(strings.Split(words[2], ","), "myself") {
			own, marks = address, words[8:]
		}
	}
	for _, mark := range marks {
		slot, other, gives := strings.Cut(strings.Trim(mark, "[]"), "->-")
		if !gives {
			slot, other, _ = strings.Cut(strings.Trim(mark, "[]"), "-<-")
		}
		n, err := strconv.Atoi(slot)
		if err != nil || other == "" {
			continue // a range that is whole
		}
		from, to := own, cmp.Or(addresses[other], other)
		if !gives {
			from, to = to, from
		}
		half[n] = fmt.Sprintf("from %s to %s", from, to)
	}
	return half
}
