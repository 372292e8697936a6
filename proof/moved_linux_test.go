package proof

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// movedSection is one visit of a hold that moves.
type movedSection struct {
	section
	fence int64
	moves int64 // hand-overs before it
}

// movedFaults are what the requests of Detach and Resume meet.
var movedFaults = []faults.Action{
	faults.CutBefore, faults.CutAfter, faults.CutInRequest, faults.CutInAnswer, faults.Double, faults.Hold,
	faults.HoldAndCut,
	faults.Delay(20 * time.Millisecond), faults.DelayRequest(20 * time.Millisecond),
}

// Three processes hand holds to each other, under cuts and kills. A lock never
// has two holders, and no fencing token goes back. Nothing is left behind.
func TestMovedHolds(t *testing.T) {
	t.Parallel()
	const processes = 3
	server := redistest.Start(t)
	var proxies [processes]*faults.Proxy
	crew := faults.StartCrew(t, processes, func(i int) *faults.Child {
		p := faults.Start(t, server.Network, server.Address)
		proxies[i] = p
		return faults.Spawn(t, "mover", p.Network, p.Address, server.Network, server.Address)
	})
	transfer := func(args []string) bool {
		return faults.Script(script.Transfer.SHA)(args) || faults.Script(script.ReentrantTransfer.SHA)(args)
	}
	sections := func() map[string][]movedSection { return movedSections(crew) }
	limit := time.Now().Add(pick(10*time.Minute, 4*time.Minute))
	for round := 1; moves(sections()) < pick(10_000, 200) || len(crew.KilledAt) < pick(20, 2); round++ {
		require.True(t, time.Now().Before(limit), "too few hand-overs")
		for range 10 {
			time.Sleep(20 * time.Millisecond) // the pace of the cuts
			p := proxies[rand.IntN(processes)]
			p.On(transfer, 1, movedFaults[rand.IntN(len(movedFaults))])
			p.Release()
		}
		crew.Kill(round % processes)
	}
	crew.End(patience)
	byKey := sections()
	require.Len(t, byKey, movedKeys)
	for key, visits := range byKey {
		judgeMoved(t, key, visits)
	}
	testkit.Eventually(t, patience, func() bool { return len(leftBehind(t, server)) == 0 }, "keys are left behind")
	t.Logf("%d hand-overs, %d kills", moves(byKey), len(crew.KilledAt))
}

// movedSections returns the visits of all processes, by key.
func movedSections(crew *faults.Crew) map[string][]movedSection {
	byKey := map[string][]movedSection{}
	for n, process := range crew.All {
		ends := map[int64]int64{}
		events := process.Events()
		for _, e := range events {
			if e.Name == "ended" {
				ends[e.Int(0)] = e.Int(1)
			}
		}
		for _, e := range events {
			if e.Name != "began" {
				continue
			}
			s := movedSection{section{process: n, goroutine: int(e.Int(4)), from: e.Int(2), until: e.Int(3)}, e.Int(1), e.Int(5)}
			if end, ok := ends[e.Int(4)]; ok {
				s.until = min(s.until, end)
			} else if end := crew.KilledAt[n]; end > 0 {
				s.until = min(s.until, end)
			}
			byKey[e.Values[0]] = append(byKey[e.Values[0]], s)
		}
	}
	return byKey
}

func moves(byKey map[string][]movedSection) (n int) {
	for _, visits := range byKey {
		for _, s := range visits {
			if s.moves > 0 {
				n++
			}
		}
	}
	return n
}

// judgeMoved checks the visits to one key.
func judgeMoved(t *testing.T, key string, visits []movedSection) {
	t.Helper()
	var v verdict
	var sections []section
	for _, s := range visits {
		sections = append(sections, s.section)
	}
	v.judgeOverlaps(sections)
	require.Empty(t, v.violations[:min(3, len(v.violations))], key)
	slices.SortFunc(visits, func(a, b movedSection) int { return int(a.from - b.from) })
	for i := range visits[1:] {
		before, s := visits[i], visits[i+1]
		if s.moves == 0 {
			require.Greater(t, s.fence, before.fence, "%s: a new hold, %v after %v", key, s, before)
		} else {
			require.Equal(t, before.fence, s.fence, "%s: the same hold, %v after %v", key, s, before)
			require.Equal(t, before.moves+1, s.moves, "%s: a token was used twice, %v after %v", key, s, before)
		}
	}
}

// leftBehind returns the keys that are no counters.
func leftBehind(t *testing.T, s *redistest.Server) (names []string) {
	t.Helper()
	all, err := redis.Strings(s.Do(t, "KEYS", prefix+"*"), nil)
	require.NoError(t, err)
	for _, name := range all {
		if !strings.HasSuffix(name, script.CounterSuffix) {
			names = append(names, name)
		}
	}
	return names
}
