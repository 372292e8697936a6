package lua_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/script"
)

// semaphoreModel is what a fair semaphore should do while nothing ends by
// itself: the entries that are taken, and the queue.
type semaphoreModel struct {
	taken map[string]bool
	queue []Wait
}

// part returns the n-th part of a wait's name as a number.
func part(w Wait, n int) int {
	number, _ := strconv.Atoi(strings.Split(string(w), ":")[n]) // made by PermitNamed
	return number
}

func (m *semaphoreModel) fits(w Wait) bool { return len(m.taken) < part(w, 4) }

func (m *semaphoreModel) leave(w Wait) {
	m.queue = slices.DeleteFunc(m.queue, func(other Wait) bool { return other == w })
}

// handOff reserves permits for the first waiters, until one does not fit, or is
// the one that asks. It reports whether it is.
func (m *semaphoreModel) handOff(asker Wait) bool {
	for len(m.queue) > 0 && m.fits(m.queue[0]) {
		if m.queue[0] == asker {
			return true
		}
		m.taken[m.queue[0].Reserved()] = true
		m.queue = m.queue[1:]
	}
	return false
}

func (m *semaphoreModel) take(w Wait) string {
	delete(m.taken, w.Reserved())
	m.leave(w)
	m.taken[w.Reads()] = true
	m.handOff(Nobody)
	return "1"
}

// ask is what try, enqueue and claim have in common: the waiter has a permit,
// or it is reserved for it, or a newcomer finds nobody waiting. Otherwise more
// decides.
func (m *semaphoreModel) ask(w Wait, newcomer bool, more func() string) string {
	switch {
	case m.taken[w.Reads()]:
		return "1"
	case m.taken[w.Reserved()], newcomer && len(m.queue) == 0 && m.fits(w):
		return m.take(w)
	}
	return more()
}

// enqueue adds the waiter to the queue first.
func (m *semaphoreModel) enqueue(w Wait) string {
	if !slices.Contains(m.queue, w) {
		m.queue = append(m.queue, w)
	}
	return m.claim(w)
}

func (m *semaphoreModel) claim(w Wait) string {
	queued := slices.Contains(m.queue, w)
	switch {
	case m.handOff(w):
		return m.take(w)
	case queued:
		return "0"
	}
	return "3"
}

// try takes a permit if nobody is left in the queue.
func (m *semaphoreModel) try(w Wait) string {
	m.handOff(Nobody)
	if len(m.queue) == 0 && m.fits(w) {
		return m.take(w)
	}
	return "0"
}

func (m *semaphoreModel) release(w Wait) string {
	switch {
	case !m.taken[w.Reads()] && m.taken[w.Kept()]:
		return "2"
	case !m.taken[w.Reads()]:
		return "0"
	}
	delete(m.taken, w.Reads())
	delete(m.taken, w.Forced())
	if part(w, 5) > 0 {
		m.taken[w.Kept()] = true
		return "2"
	}
	m.handOff(Nobody)
	return "1"
}

// renew changes no entry, but its end.
func (m *semaphoreModel) renew(w Wait) string {
	if m.taken[w.Reads()] {
		return "1"
	}
	return "0"
}

func (m *semaphoreModel) cancel(w Wait, alsoHold bool) string {
	m.leave(w)
	delete(m.taken, w.Reserved())
	if alsoHold {
		delete(m.taken, w.Reads())
	}
	m.handOff(Nobody)
	return "1"
}

// force ends all that is taken. The waits say which holds have a minimum.
func (m *semaphoreModel) force(waits []Wait) string {
	before := maps.Clone(m.taken)
	for _, w := range waits {
		if m.taken[w.Reads()] && part(w, 5) > 0 && !m.taken[w.Kept()] {
			m.taken[w.Forced()] = true
		}
	}
	maps.DeleteFunc(m.taken, func(entry string, _ bool) bool { return entry[0] != 'k' && entry[0] != 'f' })
	if len(before) == 0 || !maps.Equal(before, m.taken) {
		m.handOff(Nobody)
	}
	return "0"
}

// modelStep is a request, and what the model answers.
type modelStep struct {
	call   script.Call
	answer func() string
}

// step returns a random request, and what it is called. Of each two waits, one
// waits and one tries.
func (m *semaphoreModel) step(random *rand.Rand, waits []Wait) (s modelStep, name string) {
	if random.IntN(40) == 0 {
		return modelStep{frees(waits...), func() string { return m.force(waits) }}, "force"
	}
	w := waits[random.IntN(len(waits))]
	first := modelStep{w.Try(), func() string { return m.ask(w, true, func() string { return m.try(w) }) }}
	if part(w, 1) == 1 {
		first = modelStep{w.Enqueue(), func() string { return m.ask(w, true, func() string { return m.enqueue(w) }) }}
	}
	steps := []modelStep{
		first, first, first,
		{w.Release(), func() string { return m.release(w) }},
		{w.Renew(LongLease), func() string { return m.renew(w) }},
		{w.Cancel(1), func() string { return m.cancel(w, true) }},
		{w.Cancel(0), func() string { return m.cancel(w, false) }},
		{w.Claim(), func() string { return m.ask(w, false, func() string { return m.claim(w) }) }},
	}
	i := random.IntN(len(steps))
	return steps[i], fmt.Sprint(i, " ", w)
}

// For 2,500 random requests, the scripts answer what the model does, and leave
// the same entries and the same queue.
func TestSemaphoreScriptsAgainstTheModel(t *testing.T) {
	const histories, steps = 100, 25
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // no secret
	for range histories {
		b, m := NewQueue(t, server), &semaphoreModel{taken: map[string]bool{}}
		var waits []Wait
		for n := range 7 {
			keep := time.Duration(random.IntN(2)) * LongLease
			waits = append(waits, PermitNamed(fmt.Sprint("c", n), 1+n%2, "f", 1+random.IntN(4), keep))
		}
		var done []string
		for range steps {
			b.Live("c0", "c1", "c2", "c3", "c4", "c5", "c6")
			step, name := m.step(random, waits)
			done = append(done, name)
			require.Equal(t, step.answer(), b.Code(step.call), done)
			require.Equal(t, slices.Sorted(maps.Keys(m.taken)), slices.Sorted(slices.Values(b.Entries())), done)
			b.RequireWaits(fmt.Sprint(done), m.queue...)
		}
	}
}
