package relockotel

import (
	"maps"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// maxSeries is how many sets of attributes are kept for each metric. Sets that
// come later have the name other.
const (
	maxSeries = 1000
	other     = "other"
)

// labels is what the attributes of a point are made from.
type labels[L any] interface {
	comparable
	attributes() []attribute.KeyValue
	renamed() L // with the name other, if it has a name
}

// series has the attributes of the points of one metric. Each set of attributes
// is made once, so that a point costs no allocation. It is found without a
// mutex, since all goroutines look for the same few.
type series[L labels[L]] struct {
	mu    sync.Mutex // of make
	known atomic.Pointer[map[L]*point]
}

// point has a set of attributes, in the form that instruments take.
type point struct {
	record []metric.RecordOption
	add    []metric.AddOption
}

func newSeries[L labels[L]]() *series[L] {
	s := &series[L]{}
	s.known.Store(&map[L]*point{})
	return s
}

// of returns the attributes of l.
func (s *series[L]) of(l L) *point {
	_, p := s.find(l)
	if p == nil {
		p = s.make(l)
	}
	return p
}

// find returns the attributes of l, or nil. If there is no room for l, it
// returns those under the name other.
func (s *series[L]) find(l L) (L, *point) {
	known := *s.known.Load()
	p := known[l]
	if p == nil && len(known) >= maxSeries {
		l = l.renamed()
		p = known[l]
	}
	return l, p
}

func (s *series[L]) make(l L) *point {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, p := s.find(l)
	if p == nil {
		set := metric.WithAttributeSet(attribute.NewSet(l.attributes()...))
		p = &point{[]metric.RecordOption{set}, []metric.AddOption{set}}
		known := maps.Clone(*s.known.Load())
		known[l] = p
		s.known.Store(&known)
	}
	return p
}
