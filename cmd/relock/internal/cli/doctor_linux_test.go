package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/redistest"
)

// doctor prints a line for each check. Its code is 1 if one is a FAIL.
func TestDoctor(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	a := b.ask("--prefix", "mine:", "doctor")
	require.Zero(t, a.code, a.out)
	require.Empty(t, a.err)
	require.Regexp(t, `(?m)^ok +server +answers$`, a.out)
	require.Regexp(t, `(?m)^warn +persistence +a restart`, a.out)
	require.Equal(t, strings.Count(a.out, "\n"), strings.Count(a.out, "ok ")+strings.Count(a.out, "warn "))

	b.server.Do(t, "CONFIG", "SET", "maxmemory", "100mb", "maxmemory-policy", "allkeys-lfu")
	a = b.ask("doctor", "-o", "json")
	require.Equal(t, codeSick, a.code)
	require.Empty(t, a.err, "the lines say it")
	lines := json.NewDecoder(strings.NewReader(a.out))
	levels := map[string]string{}
	for lines.More() {
		var row findingRow
		require.NoError(t, lines.Decode(&row))
		levels[row.Check] = row.Level
	}
	require.Equal(t, "FAIL", levels["eviction"])
	require.Equal(t, "ok", levels["lock"])
}

// A password is in no line, of a server that refuses it or is away.
func TestDoctorHidesPasswords(t *testing.T) {
	t.Parallel()
	s := redistest.StartTCP(t, "--requirepass", "right")
	p := faults.Start(t, s.Network, s.Address)
	b := &bench{TB: t, server: s, proxy: p}
	for _, url := range []string{"redis://app:secret@" + s.Address, "redis://:secret@" +
		s.Address, "redis://:secret@localhost:1", "redis://:secret@" + s.Address + "/x"} {
		for _, args := range [][]string{{"doctor"}, {"-v", "doctor", "-o", "json"}, {"ls"}, {"inspect", "key"}, {
			"release", "--force", "--reason", "r", "key",
		}} {
			a := b.ask(append([]string{"--redis", url, "--timeout", "1"}, args...)...)
			require.Contains(t, []int{codeSick, codeFailed}, a.code)
			require.NotEmpty(t, a.out+a.err)
			require.NotContains(t, a.out+a.err, "secret", "%v", args)
		}
	}
}
