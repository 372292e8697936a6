package relock

import (
	"context"

	"github.com/gomodule/redigo/redis"
)

// Fencing tokens. A script that takes a lock draws the token from a counter
// beside it, `<lock>:f`: the server's time in microseconds, or one more than
// the last token where that is higher. So it does not go back when the counter
// is lost, unless the server's clock does. A grant of an unfair plain lock sets
// tokens aside for the holders that the lock is passed on to in memory. None of
// these is more than 63 µs ahead of the server's clock, so the clock soon is
// beyond them.
//
// The idea is Martin Kleppmann's:
// https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html

// tokens are what a grant by Redis has for its holders: the token of the
// present one, 0 without fencing, and how many after it are set aside.
type tokens struct{ fence, aside int64 }

// spent reports whether no token is left for another holder.
func (t tokens) spent() bool { return t.fence > 0 && t.aside == 0 }

// next moves on to the token of the next holder, which must not be spent.
func (t *tokens) next() {
	if t.fence > 0 {
		t.fence++
		t.aside--
	}
}

// readGrant reads the answer of a script that takes a lock: a number, and with
// fencing the tokens.
func readGrant(reply any) (code int64, t tokens) {
	if code, ok := reply.(int64); ok {
		return code, t
	}
	values, err := redis.Values(reply, nil)
	if err != nil || len(values) == 0 {
		return answerAlien, t
	}
	code, err = redis.Int64(values[0], nil)
	if err != nil {
		return answerAlien, t
	}
	if code == answerOurs && len(values) == 3 {
		if _, err = redis.Scan(values[1:], &t.fence, &t.aside); err != nil {
			return answerAlien, tokens{}
		}
	}
	return code, t
}

// isGrant reports whether a script that answers this took the lock.
func isGrant(reply any) bool {
	code, _ := readGrant(reply)
	return code == answerOurs
}

// raise makes the counter of a lock no lower than a token that was drawn from
// another one, for the same hold.
func (c *Client) raise(ctx context.Context, s *lockSettings, redisKey string, fence int64) error {
	o, _ := c.eval(ctx, ofLease(s.lease), scripted{fenceRaiseScript, redisKey + endOfCounter, []any{fence}})
	return o.err
}
