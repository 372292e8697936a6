package queue

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/redis/driver"
)

// answer is what a receive script answers.
type answer struct {
	code, heard int64
	next        time.Duration
	taken       []taken
	dead        []taken // died of an interruption; their records are keys
}

// taken is one delivery in an answer.
type taken struct {
	id                   string
	fence                int64
	attempt, interrupted int
	record               []byte
}

// size returns how many bytes the records have.
func (a *answer) size() (bytes int) {
	for i := range a.taken {
		bytes += len(a.taken[i].record)
	}
	return bytes
}

func readAnswer(reply any) (a answer, err error) {
	values, err := driver.Values(reply, nil)
	if err != nil {
		return a, err
	}
	var next int64
	values, err = driver.Scan(values, &a.code, &next, &a.heard)
	a.next = time.Duration(next) * time.Microsecond
	for len(values) > 0 && err == nil {
		var t taken
		var attempts string
		if values, err = driver.Scan(values, &t.id, &t.fence, &attempts, &t.record); err == nil {
			t.attempt, t.interrupted, err = readAttempts(attempts)
		}
		if t.fence == 0 {
			a.dead = append(a.dead, t)
			continue
		}
		a.taken = append(a.taken, t)
	}
	return a, err
}

// readAttempts reads how many attempts a task has had, and how often it was
// interrupted.
func readAttempts(text string) (attempts, interrupted int, err error) {
	first, second, found := strings.Cut(text, "~")
	if attempts, err = strconv.Atoi(first); err == nil && found {
		interrupted, err = strconv.Atoi(second)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("attempts of a task: %.64q is no number", text)
	}
	return attempts, interrupted, nil
}
