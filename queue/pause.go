package queue

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
)

// Pause stops all deliveries of the queue, in every process, until
// [Queue.Resume]. What is in flight goes on, and tasks can be enqueued. The
// pause is kept in Redis without a limit, and shown in [Stats]. To pause twice
// changes nothing. It returns [relock.ErrUnconfirmed] without an answer: call
// it again, or read the Stats. A request that arrives that late may also undo
// a Resume in between.
func (q *Queue) Pause(ctx context.Context) error { return q.pause(ctx, "pause", true, "") }

// Resume ends [Queue.Pause]. Keys that are paused stay so. To resume a queue
// that is not paused changes nothing. The errors are those of Pause.
func (q *Queue) Resume(ctx context.Context) error { return q.pause(ctx, "resume", false, "") }

// PauseKey stops the deliveries of the tasks with this key, as [Queue.Pause]
// those of all. They are Behind in [Stats] once a receive has found them due,
// and their number slows nothing down. "" is [relock.ErrInvalid].
func (q *Queue) PauseKey(ctx context.Context, key string) error {
	return q.pauseKey(ctx, "pause key", true, key)
}

// ResumeKey ends [Queue.PauseKey]. The tasks of the key go on in their order.
func (q *Queue) ResumeKey(ctx context.Context, key string) error {
	return q.pauseKey(ctx, "resume key", false, key)
}

func (q *Queue) pauseKey(ctx context.Context, op string, pause bool, key string) error {
	if key == "" || len(key) > maxKey || strings.Contains(key, "\x00") {
		return q.wrap(op, fmt.Errorf("%w: key: %.40q is not the key of a task", relock.ErrInvalid, key))
	}
	return q.pause(ctx, op, pause, key)
}

// pause pauses or resumes a key, or the queue if key is "".
func (q *Queue) pause(ctx context.Context, op string, pause bool, key string) error {
	flag := 0
	if pause {
		flag = 1
	}
	for {
		if err := q.ready(ctx); err != nil {
			return q.wrap(op, err)
		}
		o, d := q.run(ctx, script.TaskPause, flag, key)
		code, err := driver.Int64(o.Reply, o.Err)
		if o.Err = err; err != nil {
			return q.wrap(op, unconfirmed(ctx, o, d))
		}
		if code != script.ScanLimit {
			return nil
		}
	}
}

// PausedKey is a key whose tasks are paused by [Queue.PauseKey].
type PausedKey struct {
	Key   string
	Since time.Time // by the server's clock
}

// PausedKeys returns the keys that are paused, each once, in no order, and
// since when they are. A key that is paused or resumed meanwhile may be missed.
// After an error it ends. [Stats] has their number, and whether [Queue.Pause]
// stops the whole queue, which is not among them.
//
// It reads about 64 keys at a time, so any number of them blocks no one.
func (q *Queue) PausedKeys(ctx context.Context) iter.Seq2[PausedKey, error] {
	return func(yield func(PausedKey, error) bool) {
		l := pauseListing{reading: q.read(), yield: yield, seen: map[string]bool{queuePaused: true}}
		if err := l.run(ctx); err != nil {
			yield(PausedKey{}, q.wrap("paused keys", err))
		}
	}
}

// queuePaused is what is stored of the pause of the whole queue, in the place
// of a key.
const queuePaused = "\x00"

// pauseListing is one loop over PausedKeys.
type pauseListing struct {
	*reading

	yield   func(PausedKey, error) bool
	seen    map[string]bool // a page may have keys of an earlier one again
	stopped bool            // by the caller
}

// run yields the paused keys of all pages.
func (l *pauseListing) run(ctx context.Context) error {
	for end := [2]string{}; ; {
		some, last, err := l.ids(ctx, source{"v", "0"}, end)
		if err != nil {
			return err
		}
		if len(some)%2 != 0 {
			return errAnswer
		}
		if l.keys(some); l.stopped || last[0] == "" {
			return nil
		}
		end = last
	}
}

// keys yields those that did not come before, of keys and times in turn.
func (l *pauseListing) keys(some []string) {
	for i := 0; i < len(some) && !l.stopped; i += 2 {
		key := some[i]
		if l.seen[key] {
			continue
		}
		l.seen[key] = true
		since, _ := strconv.ParseInt(some[i+1], 10, 64) // written only by our scripts
		l.stopped = !l.yield(PausedKey{key, time.UnixMicro(since)}, nil)
	}
}
