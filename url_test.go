package relock_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
)

func TestURL(t *testing.T) {
	t.Parallel()
	for rawURL, want := range map[string]driver.Config{
		"redis://localhost":   {Network: "tcp", Address: "localhost:6379"},
		"redis://":            {Network: "tcp", Address: "localhost:6379"},
		"redis://:7000":       {Network: "tcp", Address: "localhost:7000"},
		"redis://h:7000/":     {Network: "tcp", Address: "h:7000"},
		"redis://h/4":         {Network: "tcp", Address: "h:6379", Database: 4},
		"redis://h?db=4":      {Network: "tcp", Address: "h:6379", Database: 4},
		"redis://:pw@h:1":     {Network: "tcp", Address: "h:1", Password: pointerTo("pw")},
		"redis://me:pw@h:1/2": {Network: "tcp", Address: "h:1", Username: "me", Password: pointerTo("pw"), Database: 2},
		"redis://me:p%40%2F%3A%3F%23%25%20w@h:1/2": {Network: "tcp", Address: "h:1", Username: "me", Password: pointerTo("p@/:?#% w"), Database: 2},
		"rediss://h":                        {Network: "tcp", Address: "h:6379", UseTLS: true},
		"REDISS://h":                        {Network: "tcp", Address: "h:6379", UseTLS: true},
		"redis://[::1]:7000/1":              {Network: "tcp", Address: "[::1]:7000", Database: 1},
		"redis://[::1]":                     {Network: "tcp", Address: "[::1]:6379"},
		"unix:///run/redis.sock":            {Network: "unix", Address: "/run/redis.sock"},
		"unix:///run/redis.sock?db=9":       {Network: "unix", Address: "/run/redis.sock", Database: 9},
		"unix://me:pw@/run/redis%20it.sock": {Network: "unix", Address: "/run/redis it.sock", Username: "me", Password: pointerTo("pw")},
	} {
		t.Run(rawURL, func(t *testing.T) {
			c, err := relock.NewClientURL(rawURL)
			require.NoError(t, err)
			defer func() { require.NoError(t, c.Close()) }()
			got := driver.Config{
				Network: locktest.Config(c).Network, Address: locktest.Config(c).Address, Username: locktest.Config(c).Username, Password: locktest.Config(c).Password,
				Database: locktest.Config(c).Database, UseTLS: locktest.Config(c).UseTLS,
			}
			if want.Password == nil {
				want.Password = new(string)
			}
			require.Equal(t, want, got)
		})
	}
}

func pointerTo(text string) *string { return &text }

func TestURLConnects(t *testing.T) {
	t.Parallel()
	unix, tcp := redistest.Start(t, "--requirepass", "p/w"), redistest.StartTCP(t)
	for _, rawURL := range []string{"unix://:p%2Fw@" + unix.Address, "unix://default:p%2Fw@" + unix.Address + "?db=1", "redis://" + tcp.Address + "/15"} {
		c, err := relock.NewClientURL(rawURL)
		require.NoError(t, err)
		require.NoError(t, c.Ping(t.Context()))
		require.NoError(t, c.Close())
	}
}
