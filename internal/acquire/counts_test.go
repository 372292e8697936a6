package acquire_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/script"
)

// With requests doubled, cut the first time, or with copies that come much later, levels are counted once, up and down.
func TestLevelsCountOnce(t *testing.T) {
	const depth, steps = 5, 150
	s := locktest.NewFaultServer(t)
	nth := func(n int) faults.Match {
		count := 0
		return func([]string) bool {
			count++
			return count%n == 0
		}
	}
	firstSight := func() faults.Match {
		seen := map[string]bool{}
		return func(args []string) bool {
			text := strings.Join(args, " ")
			defer func() { seen[text] = true }()
			return !seen[text]
		}
	}
	var cells []locktest.CellRun
	for _, f := range []struct {
		name   string
		match  faults.Match
		action faults.Action
	}{
		{"doubled", faults.Any, faults.Double},
		{"every third doubled", nth(3), faults.Double},
		{"cut before, sent again", firstSight(), faults.CutBefore},
		{"cut after, sent again", firstSight(), faults.CutAfter},
		{"late copy of each", faults.Any, faults.Hold},
		{"late copy of every third", nth(3), faults.Hold},
	} {
		cells = append(cells, locktest.CellRun{Name: f.name, Run: func(t testing.TB) {
			c := locktest.NewCell(t, s, relock.WithCommandTimeout(locktest.DefaultCommandTimeout))
			c.Proxy.On(func(args []string) bool {
				acquire := faults.Script(script.ReentrantAcquire.SHA)(args)
				return faults.Command("EVALSHA")(args) && f.match(args) && (!acquire || f.action != faults.Hold)
			}, faults.Every, f.action)
			lock := relock.NewReentrantLock(locktest.CellKey, c.Client)
			random := rand.New(rand.NewPCG(1, 2))
			level := 0
			for step := 0; step < steps || level > 0; step++ {
				if level == 0 || (level < depth && step < steps && random.IntN(2) == 0) {
					require.NoError(t, lock.Lock(t.Context()))
					level++
				} else {
					require.NoError(t, lock.Unlock(t.Context()))
					level--
				}
				require.Equal(t, level, c.Levels())
				if step%7 == 0 {
					c.Proxy.Release()
					require.Equal(t, level, c.Levels(), "after late copies")
				}
			}
			c.Proxy.Release()
			c.RequireLevels(0)
		}})
	}
	locktest.Together(t, cells)
}

// A level whose request was executed and whose answer was lost is asked for once more, and counts once; leaving it likewise.
func TestRetriedLevelsCountOnce(t *testing.T) {
	s := locktest.NewFaultServer(t)
	var cells []locktest.CellRun
	for depth := 1; depth <= 5; depth++ {
		for _, action := range []struct {
			name string
			faults.Action
		}{{"cut after", faults.CutAfter}, {"cut in the answer", faults.CutInAnswer}} {
			cells = append(cells, locktest.CellRun{Name: fmt.Sprintf("%d levels/%s", depth, action.name), Run: func(t testing.TB) {
				c := locktest.NewCell(t, s, relock.WithCommandTimeout(locktest.CellPatience))
				lock := relock.NewReentrantLock(locktest.CellKey, c.Client)
				for level := 1; level <= depth; level++ {
					lost := c.Proxy.On(faults.Command("EVALSHA"), 1, action.Action)
					require.NoError(t, lock.Lock(t.Context()))
					c.Await(lost, "the answer was not lost")
					require.Equal(t, level, c.Levels())
				}
				for level := depth - 1; level >= 0; level-- {
					lost := c.Proxy.On(faults.Command("EVALSHA"), 1, action.Action)
					require.NoError(t, lock.Unlock(t.Context()))
					c.Await(lost, "the answer was not lost")
					require.Equal(t, level, c.Levels())
				}
				require.ErrorIs(t, lock.Unlock(t.Context()), relock.ErrNotHeld)
				locktest.RequireFree(t, s, c.Client, locktest.CellKey)
			}})
		}
	}
	locktest.Together(t, cells)
}
