package relockotel

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"

	"github.com/relock-go/relock/queue"
)

// maxHeader is how many bytes the header of a task has at most, see
// [queue.Task].
const maxHeader = 4 << 10

// shortened reports once that a header had no room for all that the propagator
// injects.
type shortened struct{ once sync.Once }

func (s *shortened) report(q *queue.Queue, size int) {
	s.once.Do(func() {
		otel.Handle(fmt.Errorf("relockotel: queue %q: the header of a task would have %d bytes with its trace, above %d; "+
			"baggage, or all of it, was left out", q.Name(), size, maxHeader))
	})
}

// carriers returns copies of the tasks whose headers carry the trace of ctx.
func (t *Telemetry) carriers(ctx context.Context, q *queue.Queue, tasks []queue.Task) []queue.Task {
	carried := propagation.MapCarrier{}
	t.set.propagator.Inject(ctx, carried)
	if len(carried) == 0 {
		return tasks
	}
	tasks = slices.Clone(tasks)
	for i := range tasks {
		header, size := withTrace(tasks[i].Header, carried)
		tasks[i].Header = header
		if size > maxHeader {
			t.shortened.report(q, size)
		}
	}
	return tasks
}

// withTrace returns the header with what is carried, as far as both fit. It
// also returns the size of all.
func withTrace(header, carried map[string]string) (fits map[string]string, size int) {
	left := maps.Clone(carried)
	for _, name := range []string{"", "baggage", "tracestate"} {
		delete(left, name)
		all := map[string]string{}
		maps.Copy(all, header)
		maps.Copy(all, left)
		n := sizeOf(all)
		if size = max(size, n); n <= maxHeader {
			return all, size
		}
	}
	return header, size
}

func sizeOf(header map[string]string) (size int) {
	for name, value := range header {
		size += len(name) + len(value)
	}
	return size
}
