package script

import (
	"time"

	"github.com/relock-go/relock/internal/redis/driver"
)

// Tokens are the fencing tokens that a grant by Redis has for its holders.
// Fence is the token of the present holder, 0 without fencing. Aside is how
// many tokens after it are set aside for later holders.
type Tokens struct{ Fence, Aside int64 }

// Spent reports whether no token is left for another holder.
func (t Tokens) Spent() bool { return t.Fence > 0 && t.Aside == 0 }

// Next moves on to the token of the next holder. The tokens must not be spent.
func (t *Tokens) Next() {
	if t.Fence > 0 {
		t.Fence++
		t.Aside--
	}
}

// ReadGrant reads the answer of a script that takes a lock: a number, and with
// fencing the tokens.
func ReadGrant(reply any) (code int64, t Tokens) {
	if code, ok := reply.(int64); ok {
		return code, t
	}
	values, err := driver.Values(reply, nil)
	if err != nil || len(values) == 0 {
		return Conflict, t
	}
	code, err = driver.Int64(values[0], nil)
	if err != nil {
		return Conflict, t
	}
	if code == OK && len(values) == 3 {
		return readTokens(values[1:])
	}
	return code, t
}

func readTokens(values []any) (code int64, t Tokens) {
	if _, err := driver.Scan(values, &t.Fence, &t.Aside); err != nil {
		return Conflict, Tokens{}
	}
	return OK, t
}

// KeptUntil returns the end of the minimum hold for which a key is kept. If the
// answer is another one, it returns the zero time. ms is the part of the answer
// with the milliseconds until then.
func KeptUntil(answer any, ms int) (until time.Time) {
	parts, err := driver.Values(answer, nil)
	if err != nil || len(parts) <= ms || parts[0] != int64(Kept) {
		return until
	}
	left, err := driver.Int64(parts[ms], nil)
	if err != nil {
		return until
	}
	return time.Now().Add(time.Duration(left) * time.Millisecond)
}

// isGrant reports whether a script with this answer took the lock.
func isGrant(reply any) bool {
	code, _ := ReadGrant(reply)
	return code == OK
}
