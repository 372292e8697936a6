package cli

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

const (
	stormLease = 2 * time.Second
	stormLoops = 4 // beside the proxy, and as many behind it
)

// storm is processes of relock that run commands under one lock, while they and
// the server are stopped and killed.
type storm struct {
	*bench
	random *rand.Rand // of the faults only
	folder string
	wanted int
	pause  time.Duration // between two faults

	mu      sync.Mutex
	begun   int
	codes   map[int]int
	running map[*process]bool
	harmed  map[string]int
}

func newStorm(t *testing.T, wanted int, pause time.Duration) *storm {
	t.Helper()
	seed := rand.Uint64()
	if given, err := strconv.ParseUint(os.Getenv("RELOCK_SEED"), 10, 64); err == nil {
		seed = given
	}
	t.Logf("RELOCK_SEED=%d", seed)
	s := redistest.StartTCP(t, "--appendonly", "yes", "--appendfsync", "always") // a lock outlives a crash
	return &storm{
		bench:  &bench{TB: t, server: s, proxy: faults.Start(t, s.Network, s.Address)},
		random: rand.New(rand.NewPCG(seed, 0)), folder: t.TempDir(), wanted: wanted, pause: pause,
		codes: map[int]int{}, running: map[*process]bool{}, harmed: map[string]int{},
	}
}

// loop runs one command after the other. A quarter ignores TERM, and one of 16
// takes longer than the lease.
func (s *storm) loop(n int) {
	for i := 0; !s.enough(); i++ {
		length, manner := time.Duration(5+(7*i+n)%20)*time.Millisecond, "obedient"
		if i%16 == n {
			length = stormLease + stormLease/4
		}
		if i%4 == n%4 {
			manner = "stubborn"
		}
		s.turn(n, filepath.Join(s.folder, fmt.Sprint(n, "-", i)), length.String(), manner)
	}
}

func (s *storm) enough() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begun >= s.wanted || s.Failed()
}

// turn runs one command.
func (s *storm) turn(n int, path string, how ...string) {
	own := *s.bench
	if n < stormLoops {
		own.proxy = &faults.Proxy{Network: s.server.Network, Address: s.server.Address} // none
	}
	self, err := os.Executable()
	require.NoError(s, err)
	p := own.run(append([]string{"--lease", stormLease.String(), "storm", self, workWord, path}, how...)...)
	s.mark(p, true)
	<-p.done
	s.mark(p, false)
	_, begun := readTurn(path)
	s.mu.Lock()
	defer s.mu.Unlock()
	if begun {
		s.begun++
	}
	s.codes[p.cmd.ProcessState.ExitCode()]++
}

func (s *storm) mark(p *process, runs bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if runs {
		s.running[p] = true
	} else {
		delete(s.running, p)
	}
}

// anyone returns one of the processes of relock that run, or nil.
func (s *storm) anyone() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.SortedFunc(maps.Keys(s.running),
		func(a, b *process) int { return cmp.Compare(a.cmd.Process.Pid, b.cmd.Process.Pid) })
	if len(all) == 0 {
		return nil
	}
	return all[s.random.IntN(len(all))]
}

// harm does something to the server, the network or a process of relock. What
// it stops continues after the lease.
func (s *storm) harm() {
	const outage = stormLease + stormLease/2
	name, begin, end := "nobody is there", func() {}, func() {}
	p := s.anyone()
	switch s.random.IntN(6) {
	case 0:
		name, begin, end = "cut", s.proxy.Refuse, s.proxy.Accept
	case 1:
		name, begin, end = "silence", s.proxy.Stall, s.proxy.Resume
	case 2:
		name, begin, end = "server stopped", func() { s.server.Pause(s) }, func() { s.server.Resume(s) }
	case 3:
		name, begin, end = "server killed", func() { s.server.Kill(s) }, func() { s.server.BootAndLoad(s) }
	case 4:
		if p != nil {
			name, begin, end = "relock stopped", func() { _ = p.cmd.Process.Signal(unix.SIGSTOP) },
				func() { _ = p.cmd.Process.Signal(unix.SIGCONT) }
		}
	case 5:
		if p != nil {
			name, begin = "relock killed", func() { _ = p.cmd.Process.Kill() }
		}
	}
	s.harmed[name]++
	begin()
	time.Sleep(time.Duration(s.random.Int64N(int64(outage))))
	end()
}

// run runs all loops and faults, and returns the turns in order.
func (s *storm) run() []turn {
	var group sync.WaitGroup
	for n := range 2 * stormLoops {
		group.Go(func() { s.loop(n) })
	}
	for !s.enough() {
		time.Sleep(s.pause)
		s.harm()
	}
	group.Wait()
	return s.turns()
}

func (s *storm) turns() (all []turn) {
	paths, err := filepath.Glob(filepath.Join(s.folder, "*"))
	require.NoError(s, err)
	for _, path := range paths {
		if t, begun := readTurn(path); begun {
			all = append(all, t)
		}
	}
	slices.SortFunc(all, func(a, b turn) int { return cmp.Compare(a.From, b.From) })
	return all
}

// Commands under one lock never run together, and their fencing tokens rise,
// while the server and relock are stopped, killed and cut off.
func TestStormOfRuns(t *testing.T) {
	t.Parallel()
	wanted, pause := 24, 700*time.Millisecond
	if *long {
		wanted, pause = 1000, 2*time.Second
	}
	s := newStorm(t, wanted, pause)
	watch, began := testkit.NewStopwatch(t), time.Now()
	turns := s.run()
	t.Logf("%d commands in %v; exit codes %v; faults %v",
		len(turns), time.Since(began).Round(time.Second), s.codes, s.harmed)
	for _, pair := range locktest.Overlaps(turns, func(t turn) locktest.Span {
		return locktest.Span{From: t.From, Until: t.Last}
	}) {
		overlap := time.Duration(min(pair[0].Last, pair[1].Last) - pair[1].From)
		require.NoError(t, watch.Judge(overlap, 0), "two commands ran together")
	}
	for i := range turns[1:] {
		require.Less(t, turns[i].Fence, turns[i+1].Fence, "a fencing token does not rise")
	}
	for code := range s.codes {
		require.Contains(t, []int{-1, 0, codeLost}, code)
	}
}
