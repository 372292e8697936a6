package relock

import (
	"context"

	"github.com/gomodule/redigo/redis"
)

// Fencing tokens. A script that takes a lock draws the token from a counter beside it, `<lock>:f`: the server's time in
// microseconds, or one more than the last token where that is higher. So it does not go back when the counter is lost,
// unless the server's clock does. Each grant sets a block of tokens aside for the holders that the lock is passed on to in
// memory.
//
// The idea is Martin Kleppmann's: https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html

// fenceBlock is how many tokens one grant by Redis has; lua/fence.lua sets them aside.
const fenceBlock = 64

// readGrant reads the answer of a script that takes a lock: a number, and with fencing a token.
func readGrant(reply any) (code, fence int64) {
	if code, ok := reply.(int64); ok {
		return code, 0
	}
	values, err := redis.Values(reply, nil)
	if err != nil || len(values) == 0 {
		return answerAlien, 0
	}
	code, err = redis.Int64(values[0], nil)
	if err != nil {
		return answerAlien, 0
	}
	if code == answerOurs && len(values) == 2 {
		if fence, err = redis.Int64(values[1], nil); err != nil {
			return answerAlien, 0
		}
	}
	return code, fence
}

// tokensSpent says that a lease was given on so often that the tokens of its grant are used up.
func (l *lease) tokensSpent() bool { return l.fence > 0 && l.passes >= fenceBlock-1 }

// raise makes the counter of a lock no lower than after the draw of a token that was drawn from another one, for the same
// hold.
func (c *Client) raise(ctx context.Context, s *lockSettings, redisKey string, fence int64) error {
	o, _ := c.eval(ctx, ofLease(s.lease), scripted{fenceRaiseScript, redisKey + endOfCounter, []any{fence + fenceBlock - 1}})
	return o.err
}
