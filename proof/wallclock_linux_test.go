package proof

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/proof/internal/testbinary"
)

func init() { roles["clock"] = clockRole }

// clockRole reports the time of day.
func clockRole(self *faults.Self) error {
	self.Emit("clock", time.Now().Unix())
	return nil
}

// wrongClock is the environment variable with the number of seconds by which a
// program of [wrongClocks] has the wrong time of day.
const wrongClock = "RELOCK_PROOF_WRONG_CLOCK"

// wrongClocks builds these tests with a standard library whose time of day is
// wrong, as on a machine with a wrong clock. The monotonic clock is right. Go
// asks the kernel without the C library, so the library cannot be replaced at
// run time.
func wrongClocks(t *testing.T) (path string) {
	t.Helper()
	goroot, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	require.NoError(t, err)
	file := filepath.Join(strings.TrimSpace(string(goroot)), "src", "time", "time.go")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	source := string(text)
	for _, change := range [][2]string{
		{"import (\n", "import (\n\t\"syscall\"\n"},
		{"func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n", "func Now() Time {\n\tsec, nsec, " +
			"mono := runtimeNow()\n\tsec += relockWrong\n"},
	} {
		require.Equal(t, 1, strings.Count(source, change[0]), "this Go does not have what is to be changed: %q", change[0])
		source = strings.Replace(source, change[0], change[1], 1)
	}
	source += `
var relockWrong = func() int64 {
	text, _ := syscall.Getenv("` + wrongClock + `")
	seconds, _ := atoi(text)
	return int64(seconds)
}()
`
	root, err := testbinary.Root()
	require.NoError(t, err)
	built, err := testbinary.Build(t.Context(), root, map[string]string{file: source}, t.TempDir(), "./proof")
	require.NoError(t, err)
	return built["./proof"]
}

// Clients whose clocks are an hour ahead or behind wait in line with others.
// Neither the order nor the exclusion changes, and each keeps its hold. Only
// the two parts of this test run together, since the build keeps the machine
// busy.
func TestClientsWithWrongClocks(t *testing.T) {
	t.Parallel()
	path := wrongClocks(t)
	var programs []faults.Program
	for _, seconds := range []int{0, 3600, 0, -3600, 0} {
		p := faults.Program{Path: path, Env: []string{wrongClock + "=" + strconv.Itoa(seconds)}}
		reported := p.Spawn(t, "clock").Next("clock", patience).Int(0)
		require.InDelta(t, time.Now().Unix()+int64(seconds), reported, 300, "the clock is not wrong by %d seconds", seconds)
		programs = append(programs, p)
	}
	together(t, map[string]string{plain: plain, reentrant: reentrant}, func(t *testing.T, kind string) {
		b := newWaitBench(t, kind, fairMode)
		b.takeTurns(programs)
		b.countTogether(programs)
	})
}

// takeTurns has a process of each program wait. They get the lock in their
// order, and keep it beyond a lease.
func (b *waitBench) takeTurns(programs []faults.Program) {
	b.Helper()
	const lease = 2 * time.Second
	h := b.hold()
	var children []*faults.Child
	for _, p := range programs {
		b.program = p
		children = append(children, b.process(lease, 1))
	}
	require.NoError(b, h.Unlock(b.Context()))
	for i, child := range children {
		child.Next("granted", patience)
		time.Sleep(lease * 5 / 4)
		for _, later := range children[i+1:] {
			require.Empty(b, eventsNamed(later.Events(), "granted"), "before its turn, which comes after the %d-th", i+1)
		}
		child.Send("unlock")
		require.Equal(b, "<nil>", child.Next("unlocked", patience).Values[1], "the %d-th has lost it", i+1)
		child.End(patience)
	}
}

// countTogether has a process of each program increment an unprotected number.
func (b *waitBench) countTogether(programs []faults.Program) {
	b.Helper()
	times := pick(100, 10)
	path, shared := newShared[register](b)
	var children []*faults.Child
	for _, p := range programs {
		children = append(children,
			p.Spawn(b, "counters", b.server.Network, b.server.Address, b.kind, b.mode, "counted", path, strconv.Itoa(times)))
	}
	for _, child := range children {
		require.Equal(b, "true", child.Next("counted", 5*patience).Values[0])
		child.End(patience)
	}
	require.Equal(b, int64(len(programs)*contenders*times), shared.read())
}
