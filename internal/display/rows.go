package display

import (
	"strings"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/queue"
)

// These are the objects of JSON that docs/tools.md describes, of the command
// and of the page. Other programs read them: a field may be added, but not
// renamed.

type (
	// LockRow is a lock.
	LockRow struct {
		Key       string      `json:"key"`
		State     string      `json:"state"`
		Kind      string      `json:"kind"`
		Fair      bool        `json:"fair"`
		Holder    *HolderRow  `json:"holder"`
		Readers   []HolderRow `json:"readers"`
		Remaining *float64    `json:"remaining"` // null without an expiry
		Fence     int64       `json:"fence"`
		Waiting   int         `json:"waiting"`
		Waiters   []WaiterRow `json:"waiters"`
		Permits   int         `json:"permits"`
	}
	// HolderRow is a holder of a lock, or of a task in flight.
	HolderRow struct {
		Client string    `json:"client"`
		Host   string    `json:"host"`
		PID    int       `json:"pid"`
		Label  string    `json:"label"`
		Since  time.Time `json:"since"`
		Owner  string    `json:"owner"`
		Count  int       `json:"count"`
		Forced bool      `json:"forced"` // marked to end by force
	}
	// WaiterRow is a waiter for a lock.
	WaiterRow struct {
		Client string  `json:"client"`
		Age    float64 `json:"age"`
		Kind   string  `json:"kind"`
		Fair   bool    `json:"fair"`
	}
	// QueueRow is a queue.
	QueueRow struct {
		Name     string  `json:"name"`
		Ready    int     `json:"ready"`
		Delayed  int     `json:"delayed"`
		InFlight int     `json:"in_flight"`
		Behind   int     `json:"behind"`
		Dead     int     `json:"dead"`
		Idle     int     `json:"idle"`
		Oldest   float64 `json:"oldest"`

		Paused     bool `json:"paused"`
		PausedKeys int  `json:"paused_keys"`
	}
	// TaskRow is a task, without its payload.
	TaskRow struct {
		ID            string     `json:"id"`
		Key           string     `json:"key"`
		State         string     `json:"state"`
		EnqueuedAt    *time.Time `json:"enqueued_at"` // null if the record cannot be read
		Due           *time.Time `json:"due"`         // null unless it is ready or delayed
		Attempts      int        `json:"attempts"`
		Interruptions int        `json:"interruptions"`
		LastError     string     `json:"last_error"`
		Holder        *HolderRow `json:"holder"`    // null unless it is in flight
		LeaseEnd      *time.Time `json:"lease_end"` // null unless it is in flight
		Before        string     `json:"before"`
		Lock          string     `json:"lock"`
		Paused        bool       `json:"paused"`
		DiedAt        *time.Time `json:"died_at"` // null unless it is dead
		Bytes         int        `json:"bytes"`
	}
	// LetterRow is a dead letter.
	LetterRow struct {
		ID            string     `json:"id"`
		Key           string     `json:"key"`
		EnqueuedAt    *time.Time `json:"enqueued_at"` // null if the record cannot be read
		DiedAt        time.Time  `json:"died_at"`
		Attempts      int        `json:"attempts"`
		Interruptions int        `json:"interruptions"`
		Bytes         int        `json:"bytes"`
		Reason        string     `json:"reason"`
	}
	// PausedRow is a key of tasks that is paused.
	PausedRow struct {
		Key   string    `json:"key"`
		Since time.Time `json:"since"`
	}
)

// ToQueueRow returns the object of a queue with this name.
func ToQueueRow(name string, s queue.Stats) QueueRow {
	return QueueRow{
		name, s.Ready, s.Delayed, s.InFlight, s.Behind, s.Dead, s.Idle, s.Oldest.Seconds(), s.Paused, s.PausedKeys,
	}
}

// ToTaskRow returns the object of a task, without its payload.
func ToTaskRow(t queue.TaskInfo) TaskRow {
	row := TaskRow{
		ID: t.ID, Key: t.Key, State: StateOf(t.State), Attempts: t.Attempts, Interruptions: t.Interruptions,
		LastError: t.LastError,
		Before:    t.Before, Lock: t.Lock, Paused: t.Paused, Bytes: len(t.Payload),
		EnqueuedAt: known(t.EnqueuedAt), Due: known(t.Due), LeaseEnd: known(t.LeaseEnd), DiedAt: known(t.DiedAt),
	}
	if t.Holder != nil {
		holder := HolderRow(*t.Holder)
		row.Holder = &holder
	}
	return row
}

// ToPausedRow returns the object of a paused key.
func ToPausedRow(k queue.PausedKey) PausedRow { return PausedRow(k) }

// StateOf returns the name of a state in one word.
func StateOf(s queue.State) string { return strings.ReplaceAll(string(s), " ", "-") }

// known returns a time, or nil if there is none.
func known(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// ToLetterRow returns the object of a dead letter.
func ToLetterRow(l queue.DeadTask) LetterRow {
	return LetterRow{
		ID: l.ID, Key: l.Key, DiedAt: l.DiedAt, Attempts: l.Attempts, Interruptions: l.Interruptions,
		Bytes: len(l.Payload), Reason: l.Reason, EnqueuedAt: known(l.EnqueuedAt),
	}
}

// ToLockRow returns the object of a lock.
func ToLockRow(i relock.Info) LockRow {
	row := LockRow{
		Key: i.Key, State: string(i.State), Kind: string(i.Kind), Fair: i.Fair,
		Fence: i.Fence, Waiting: i.Waiting, Permits: i.Permits,
		Readers: []HolderRow{}, Waiters: []WaiterRow{}, // [], not null
	}
	if i.Remaining != relock.NoExpiry {
		left := i.Remaining.Seconds()
		row.Remaining = &left
	}
	if i.Holder != nil {
		holder := HolderRow(*i.Holder)
		row.Holder = &holder
	}
	for _, h := range i.Readers {
		row.Readers = append(row.Readers, HolderRow(h))
	}
	for _, w := range i.Waiters {
		row.Waiters = append(row.Waiters, WaiterRow{w.Client, w.Age.Seconds(), string(w.Kind), w.Fair})
	}
	return row
}
