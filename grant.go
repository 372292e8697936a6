package relock

import "github.com/relock-go/relock/internal/driver"

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
	values, err := driver.Values(reply, nil)
	if err != nil || len(values) == 0 {
		return answerAlien, t
	}
	code, err = driver.Int64(values[0], nil)
	if err != nil {
		return answerAlien, t
	}
	if code == answerOurs && len(values) == 3 {
		if _, err = driver.Scan(values[1:], &t.fence, &t.aside); err != nil {
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
