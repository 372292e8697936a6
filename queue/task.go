package queue

import (
	"encoding/binary"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/lockspec"
)

// Limits of a task.
const (
	maxID      = 256
	maxKey     = 512
	maxHeader  = 4 << 10
	maxPayload = 1 << 20
)

// Task is a unit of work.
type Task struct {
	// ID names the task, in at most 256 bytes. "" draws one, which Enqueue
	// returns. While a task with this ID is queued, in flight, a dead letter,
	// or was done within [WithUnique], another one is left out with
	// [ErrDuplicate].
	ID string

	// Key orders tasks, in at most 512 bytes without a zero byte. Tasks with
	// one key are processed one at a time, in the order of Enqueue. "" is no
	// order.
	Key string

	// Payload is the work, at most 1 MiB.
	Payload []byte

	// Header has trace ids and the like, at most 4 KiB.
	Header map[string]string

	// Delay is how long after Enqueue the task is due. It is rounded up to
	// milliseconds. A delayed task takes its place in the order of its key when
	// a receive finds it due.
	Delay time.Duration

	// At is when the task is due, by this machine's clock: instead of Delay,
	// with which it is [relock.ErrInvalid]. A time in the past is now. A
	// delivery has the Delay that Enqueue has made of it, and no At. A request
	// that is sent again after a break makes the task due later by that time.
	At time.Time

	// MaxAttempts is how many attempts this task has, 1 to 1,000,000. 0 is that
	// of [WithMaxAttempts].
	MaxAttempts int
}

// check adds what is wrong with the task.
func (t *Task) check(m *lockspec.Problems) {
	m.Check(len(t.ID) <= maxID, "ID: %d bytes are above %d", len(t.ID), maxID)
	m.Check(len(t.Key) <= maxKey, "Key: %d bytes are above %d", len(t.Key), maxKey)
	m.Check(!strings.Contains(t.Key, "\x00"), "Key: has a zero byte")
	m.Check(len(t.Payload) <= maxPayload, "Payload: %d bytes are above %d", len(t.Payload), maxPayload)
	m.Check(t.Delay >= 0, "Delay: %v is negative", t.Delay)
	m.Check(t.Delay <= lockspec.MaxLease, "Delay: %v is above %v", t.Delay, lockspec.MaxLease)
	m.Check(t.At.IsZero() || t.Delay == 0, "At: Delay is set, too")
	m.Check(t.At.IsZero() || time.Until(t.At) <= lockspec.MaxLease, "At: %v is more than %v away", t.At, lockspec.MaxLease)
	m.Check(t.MaxAttempts >= 0 && t.MaxAttempts <= maxAttempts, "MaxAttempts: %d is not 0 to %d", t.MaxAttempts,
		maxAttempts)
	size := 0
	for name, value := range t.Header {
		size += len(name) + len(value)
	}
	m.Check(size <= maxHeader, "Header: %d bytes are above %d", size, maxHeader)
}

// fixAt makes a Delay of At.
func (t *Task) fixAt() {
	if !t.At.IsZero() {
		t.Delay, t.At = max(0, time.Until(t.At)), time.Time{}
	}
}

// delay returns the delay in whole milliseconds, rounded up.
func (t *Task) delay() int64 { return milliseconds(t.Delay) }

func milliseconds(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

// body encodes what is stored of the task besides its id. The script reads the
// length of the key, and the key. Before them it puts the id of the task before
// this one, of which there is none yet.
func (t *Task) body() []byte {
	n := len(t.Key)
	b := make([]byte, 0, 6+n+20+len(t.Payload))
	b = append(b, '0', '0', '0', byte('0'+n/100), byte('0'+n/10%10), byte('0'+n%10))
	b = append(b, t.Key...)
	b = binary.AppendUvarint(b, uint64(t.delay()))
	b = binary.AppendUvarint(b, uint64(t.MaxAttempts))
	b = binary.AppendUvarint(b, uint64(len(t.Header)))
	for name, value := range t.Header {
		b = appendText(b, name)
		b = appendText(b, value)
	}
	return append(b, t.Payload...)
}

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// The parts of a record before the body.
const (
	nonceSize  = 8
	ticketSize = 16
)

// apart is in the place of the length of the id before it, while a delayed task
// has not joined its key.
const apart = "---"

var errRecord = errors.New("the record of a task cannot be read")

// readRecord returns the task with this id and record, and when it was
// enqueued.
func readRecord(id string, record []byte) (t Task, enqueued time.Time, err error) {
	r := reader{rest: record}
	r.take(nonceSize)
	ticket := r.number(ticketSize)
	if mark := r.take(3); string(mark) != apart {
		r.take(int(r.parse(mark))) // the id before it
	}
	t.ID = id
	t.Key = string(r.take(int(r.number(3))))
	t.Delay = time.Duration(r.uvarint()) * time.Millisecond
	attempts := r.uvarint()
	r.bad = r.bad || attempts > maxAttempts
	t.MaxAttempts = int(attempts)
	for n := r.uvarint(); n > 0 && !r.bad; n-- {
		if t.Header == nil {
			t.Header = map[string]string{}
		}
		name := string(r.take(int(r.uvarint())))
		t.Header[name] = string(r.take(int(r.uvarint())))
	}
	t.Payload = r.rest
	if r.bad {
		return Task{}, time.Time{}, errRecord
	}
	return t, time.UnixMicro(ticket).Add(-t.Delay), nil
}

// reader reads a record. After the first mistake it returns nothing more.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.rest) {
		r.bad, n = true, 0
	}
	taken := r.rest[:n:n]
	r.rest = r.rest[n:]
	return taken
}

func (r *reader) number(digits int) int64 { return r.parse(r.take(digits)) }

func (r *reader) parse(text []byte) int64 {
	n, err := strconv.ParseInt(string(text), 10, 64)
	r.bad = r.bad || err != nil
	return n
}

func (r *reader) uvarint() uint64 {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 {
		r.bad = true
		return 0
	}
	r.rest = r.rest[size:]
	return n
}
