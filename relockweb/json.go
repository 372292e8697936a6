package relockweb

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/relock-go/relock/internal/display"
	"github.com/relock-go/relock/internal/doctor"
)

// These are the objects of format=json, one for each view. Other programs read
// them: a field may be added, but not renamed. Those of package display are the
// same as of the command.
type (
	readingJSON struct {
		At       time.Time `json:"at"`
		Problems []string  `json:"problems"` // what could not be read
	}
	overviewJSON struct {
		readingJSON
		RoundTrip float64           `json:"round_trip"` // seconds
		Checks    []checkJSON       `json:"checks"`     // that are not ok
		Process   processJSON       `json:"process"`
		Locks     []display.LockRow `json:"locks"`
		Queues    []queueJSON       `json:"queues"`
		Circles   []string          `json:"circles"`
		Notes     []string          `json:"notes"` // what is missing in a list
	}
	checkJSON struct {
		Check  string `json:"check"`
		Level  string `json:"level"`
		Found  string `json:"found"`
		Remedy string `json:"remedy"`
	}
	processJSON struct {
		Held          int   `json:"held"`
		Waiting       int   `json:"waiting"`
		Losses        int64 `json:"losses"`
		RenewalErrors int64 `json:"renewal_errors"`
	}
	lockJSON struct {
		readingJSON
		Lock *display.LockRow `json:"lock"` // null if it could not be read
	}
	queueJSON struct {
		display.QueueRow
		Overdue int    `json:"overdue"` // in this process
		Error   string `json:"error"`
	}
	tasksJSON struct {
		readingJSON
		Queue      *queueJSON          `json:"queue"` // null if the page has none
		PausedKeys []display.PausedRow `json:"paused_keys"`
		State      string              `json:"state"`
		Page       int                 `json:"page"`
		More       bool                `json:"more"`
		Tasks      []taskJSON          `json:"tasks"`
		Notes      []string            `json:"notes"`
	}
	taskJSON struct {
		display.TaskRow
		Payload string `json:"payload"` // what WithPayload shows
	}
	oneTaskJSON struct {
		readingJSON
		Queue *queueJSON `json:"queue"`
		Task  *taskJSON  `json:"task"` // null if there is none
	}
)

// writeJSON writes a view as an object.
func writeJSON(w http.ResponseWriter, asked query, v view) {
	guard(w.Header())
	w.Header().Set("Content-Type", "application/json")
	lines := json.NewEncoder(w)
	lines.SetIndent("", "  ")
	_ = lines.Encode(objectOf(asked, v)) // the viewer has left
}

// objectOf returns the object of a view.
func objectOf(asked query, v view) any {
	head := readingJSON{v.At, each(v.Problems, asIs[string])}
	switch {
	case asked.lock != "":
		return lockJSON{head, some(v.Lock, display.ToLockRow)}
	case asked.task != "":
		return oneTaskJSON{head, some(v.Queue, toQueue), some(v.Task, toTask)}
	case asked.queue != "":
		return tasksJSON{
			head, some(v.Queue, toQueue), each(v.Paused, display.ToPausedRow), display.StateOf(v.State), v.Page, v.More,
			each(v.Tasks, toTask), each(v.Notes, asIs[string]),
		}
	}
	return overviewJSON{
		readingJSON: head, RoundTrip: v.Trip.Seconds(), Checks: each(v.Checks, toCheck),
		Process: processJSON{v.Stats.Held, v.Stats.Waiting, v.Stats.Losses, v.Stats.RenewalErrors},
		Locks:   each(v.Locks, display.ToLockRow), Queues: each(v.Queues, toQueue),
		Circles: each(v.Circles, asIs[string]), Notes: each(v.Notes, asIs[string]),
	}
}

func toCheck(f doctor.Finding) checkJSON {
	return checkJSON{f.Check, string(f.Level), f.Found, f.Remedy}
}

func toQueue(q queueRow) queueJSON {
	return queueJSON{display.ToQueueRow(q.Name, q.Stats), q.Stats.Overdue, q.Err}
}

func toTask(t taskRow) taskJSON { return taskJSON{display.ToTaskRow(t.TaskInfo), t.Shown} }

// each returns a list that is never null.
func each[T, R any](all []T, f func(T) R) []R {
	list := make([]R, 0, len(all))
	for _, one := range all {
		list = append(list, f(one))
	}
	return list
}

func asIs[T any](one T) T { return one }

// some returns nil for nil.
func some[T, R any](one *T, f func(T) R) *R {
	if one == nil {
		return nil
	}
	r := f(*one)
	return &r
}
