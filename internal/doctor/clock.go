package doctor

import (
	"context"
	"time"
)

const (
	ahead  = time.Second            // what people notice
	jumped = 200 * time.Millisecond // more than a clock is slewed during a run
)

// reading is what the server's clock has shown.
type reading struct {
	server        time.Time
	before, after time.Time // by this machine
	err           error
}

// readClock reads the server's clock.
func (d *doctor) readClock(ctx context.Context) (r reading) {
	r.before = time.Now()
	reply, err := d.eval(ctx, "local now = redis.call('TIME') return now[1] * 1000 + math.floor(now[2] / 1000)")
	r.after, r.err = time.Now(), err
	ms, _ := reply.(int64) // 0 after an error
	r.server = time.UnixMilli(ms)
	return r
}

// clock compares two readings. That the clocks of the server and of this
// machine differ is no fault. One that is set ends leases early, or late.
func (d *doctor) clock(first, last reading) {
	for _, r := range []reading{first, last} {
		if r.err != nil {
			d.find("clock", Warn, "give the user +time, which waiting and fencing need", "unknown: %v", r.err)
			return
		}
	}
	shown := last.server.Sub(first.server)
	set := beyond(shown, last.before.Sub(first.after), last.after.Sub(first.before))
	differs := beyond(last.server.Sub(last.before), 0, last.after.Sub(last.before))
	switch {
	case set.Abs() > jumped:
		const remedy = "let the clock be slewed, not set; see docs/guarantees.md"
		d.find("clock", Warn, remedy, "the server's clock was set by %v meanwhile", set.Round(time.Millisecond))
	case differs.Abs() > ahead:
		const remedy = "no lock depends on it, but ages that people see are wrong"
		d.find("clock", OK, remedy, "the server's clock is ahead by %v", differs.Round(time.Millisecond))
	default:
		d.find("clock", OK, "", "agrees within %v", ahead)
	}
}

// beyond returns by how much d, which is cut to milliseconds, is above or below
// a range. It is 0 within.
func beyond(d, least, most time.Duration) time.Duration {
	return max(d-most-time.Millisecond, 0) - max(least-d-time.Millisecond, 0)
}
