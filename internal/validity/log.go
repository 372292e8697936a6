package validity

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
)

// About returns what a log line says of the grant: its lock, the kind and the
// label of that. The attributes in more follow.
func (v *Validity) About(more ...any) []any {
	all := append(make([]any, 0, 8+len(more)), "key", v.Name, "kind", v.Settings.KindName())
	if label := v.Settings.LabelText(); label != "" {
		all = append(all, "label", label)
	}
	return append(all, more...)
}

// warningPause is the shortest time between two warnings of a client that
// renewals fail. An outage concerns all of its holds.
const warningPause = 30 * time.Second

// warnings limits how often a client warns of one thing.
type warnings struct{ next atomic.Int64 } // counted from the client's start

// level returns the level of an event at now, counted from the client's start.
// It is that of a warning once in a warningPause.
func (w *warnings) level(now time.Duration) slog.Level {
	next := w.next.Load()
	if int64(now) < next || !w.next.CompareAndSwap(next, int64(now+warningPause)) {
		return slog.LevelDebug
	}
	return slog.LevelWarn
}

// logFailure logs that a renewal failed: the first one of an outage as a
// warning.
func (b *Books) logFailure(err error, of Renewable) {
	level := b.warnings.level(time.Since(b.start))
	b.logger.Log(context.Background(), level, "relock: renewal failed, retrying", of.About("reason", err.Error())...)
}
