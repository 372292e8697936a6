package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/relock-go/relock/examples/internal/runs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The payments of an account are booked one after the other and in order, and
// those of others meanwhile.
func TestAccounts(t *testing.T) {
	t.Parallel()
	runs.OnBoth(t, run, func(t *testing.T, out string) {
		of := map[string][]string{}
		alone := true
		before := ""
		for line := range strings.Lines(out) {
			account, what, _ := strings.Cut(strings.TrimSpace(line), ": ")
			of[account] = append(of[account], what)
			alone = alone && (before == account || !strings.HasPrefix(what, "booked"))
			before = account
		}
		want := []string{
			"booking +100", "booked +100", "booking -30", "booked -30", "booking -70", "booked -70", "booking +5", "booked +5",
		}
		require.Equal(t, map[string][]string{"alice": want, "bob": want, "carol": want}, of)
		require.False(t, alone, "accounts have waited for each other")
	})
}
