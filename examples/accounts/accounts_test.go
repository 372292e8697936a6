package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/relock-go/relock/examples/internal/embedded"
	"github.com/relock-go/relock/internal/test/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The payments of an account are booked one after the other and in order, and
// those of others meanwhile.
func TestAccounts(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for name, url := range map[string]string{"embedded": "", "real": "unix://" + server.Address} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, stop, err := embedded.Open(url)
			require.NoError(t, err)
			defer stop()
			var out bytes.Buffer
			require.NoError(t, run(t.Context(), &out, url))
			t.Log(out.String())

			of := map[string][]string{}
			alone := true
			before := ""
			for line := range strings.Lines(out.String()) {
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
}
