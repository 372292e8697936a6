package relockweb

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/doctor"
	"github.com/relock-go/relock/queue"
)

const (
	freshFor  = 2 * time.Second // how long viewers share a reading
	readLimit = 3 * time.Second // of a reading
	maxCells  = 64              // of views that nobody has looked at lately
	maxForm   = 1 << 20
)

// handler is the page.
type handler struct {
	client  *relock.Client
	queues  []*queue.Queue
	audit   func(*http.Request, Action) error
	payload func(queue.Task) string

	mu    sync.Mutex // protects cells
	cells map[query]*cell
	found found
	scan  chan struct{} // has room for one list of locks: filters are many

	checks struct { // of the server
		sync.Mutex
		at  time.Time
		all []doctor.Finding
	}
}

// cell is the last reading of one view. Its mutex is held while it is read, so
// that viewers wait for each other's reading.
type cell struct {
	sync.Mutex
	view view
}

// ServeHTTP serves a view, or makes a change.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodGet, r.Method == http.MethodHead:
		h.get(w, r)
	case r.Method == http.MethodPost && h.audit != nil:
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		h.act(w, r)
	default:
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "the page is read-only", http.StatusMethodNotAllowed)
	}
}

// get serves a view.
func (h *handler) get(w http.ResponseWriter, r *http.Request) {
	values := r.URL.Query()
	asked := toQuery(values)
	switch format := values.Get("format"); format {
	case "":
		h.show(w, http.StatusOK, h.look(r.Context(), asked))
	case "json":
		writeJSON(w, asked, h.look(r.Context(), asked))
	default:
		http.Error(w, fmt.Sprintf("format: %.20q is not json", format), http.StatusBadRequest)
	}
}

// look returns a view that is not older than freshFor. The reading goes on if
// the viewer leaves, since others may wait for it.
func (h *handler) look(ctx context.Context, asked query) view {
	c := h.cell(asked)
	c.Lock()
	defer c.Unlock()
	if time.Since(c.view.At) >= freshFor {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readLimit)
		defer cancel()
		c.view = h.read(ctx, asked)
		c.view.At = time.Now()
	}
	return c.view
}

// cell returns the cell of a view. It drops old ones.
func (h *handler) cell(name query) *cell {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.cells[name] == nil {
		if len(h.cells) >= maxCells {
			h.drop()
		}
		h.cells[name] = &cell{}
	}
	return h.cells[name]
}

// drop drops cells that nobody reads and that are not fresh. h.mu must be held.
func (h *handler) drop() {
	for name, c := range h.cells {
		if !c.TryLock() {
			continue
		}
		if time.Since(c.view.At) >= freshFor {
			delete(h.cells, name)
		}
		c.Unlock()
	}
}

// forget makes the next look at every view a new reading, after a change.
func (h *handler) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cells = map[query]*cell{}
}

// show writes a view.
func (h *handler) show(w http.ResponseWriter, code int, v view) {
	v.Actions = h.audit != nil
	var body bytes.Buffer
	if err := page.Execute(&body, v); err != nil {
		http.Error(w, "the page cannot be made", http.StatusInternalServerError)
		return
	}
	head := w.Header()
	guard(head)
	head.Set("Content-Type", "text/html; charset=utf-8")
	head.Set("Content-Security-Policy", policy)
	w.WriteHeader(code)
	_, _ = body.WriteTo(w) // the viewer has left
}

// guard sets the headers of all answers.
func guard(head http.Header) {
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Referrer-Policy", "same-origin")
	head.Set("Cache-Control", "no-store")
}
