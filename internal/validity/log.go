package validity

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
)

// warningPause is the shortest time between two warnings of a client that
// renewals fail. An outage concerns all of its holds.
const warningPause = 30 * time.Second

// warnings limits how often a client warns of one thing.
type warnings struct {
	clock
	logger *slog.Logger
	next   atomic.Int64 // when to warn again, counted from the client's start
}

// described is what a log line is about.
type described interface {
	// About returns what a log line says of it. The attributes in more follow.
	About(more ...any) []any
}

// level returns the level of an event at now, counted from the client's start.
// It is that of a warning once in a warningPause.
func (w *warnings) level(now time.Duration) slog.Level {
	next := w.next.Load()
	if int64(now) < next || !w.next.CompareAndSwap(next, int64(now+warningPause)) {
		return slog.LevelDebug
	}
	return slog.LevelWarn
}

// failed logs that a renewal failed: the first one of an outage as a warning.
func (w *warnings) failed(err error, of described) {
	level := w.level(w.now())
	w.logger.Log(context.Background(), level, "relock: renewal failed, retrying", of.About("reason", err.Error())...)
}
