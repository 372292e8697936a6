package validity

import "time"

// clock counts from the client's start: a duration takes less memory than a
// time.
type clock struct{ start time.Time }

// At returns the time that was counted from the client's start.
func (c clock) At(d time.Duration) time.Time { return c.start.Add(d) }

// Count returns t counted from the client's start.
func (c clock) Count(t time.Time) time.Duration { return t.Sub(c.start) }

// now returns the current time counted from the client's start.
func (c clock) now() time.Duration { return time.Since(c.start) }
