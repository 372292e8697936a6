package relock

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
)

func TestURL(t *testing.T) {
	t.Parallel()
	for rawURL, want := range map[string]driverConfig{
		"redis://localhost":   {network: "tcp", address: "localhost:6379"},
		"redis://":            {network: "tcp", address: "localhost:6379"},
		"redis://:7000":       {network: "tcp", address: "localhost:7000"},
		"redis://h:7000/":     {network: "tcp", address: "h:7000"},
		"redis://h/4":         {network: "tcp", address: "h:6379", database: 4},
		"redis://h?db=4":      {network: "tcp", address: "h:6379", database: 4},
		"redis://:pw@h:1":     {network: "tcp", address: "h:1", password: pointerTo("pw")},
		"redis://me:pw@h:1/2": {network: "tcp", address: "h:1", username: "me", password: pointerTo("pw"), database: 2},
		"redis://me:p%40%2F%3A%3F%23%25%20w@h:1/2": {network: "tcp", address: "h:1", username: "me", password: pointerTo("p@/:?#% w"), database: 2},
		"rediss://h":                        {network: "tcp", address: "h:6379", useTLS: true},
		"REDISS://h":                        {network: "tcp", address: "h:6379", useTLS: true},
		"redis://[::1]:7000/1":              {network: "tcp", address: "[::1]:7000", database: 1},
		"redis://[::1]":                     {network: "tcp", address: "[::1]:6379"},
		"unix:///run/redis.sock":            {network: "unix", address: "/run/redis.sock"},
		"unix:///run/redis.sock?db=9":       {network: "unix", address: "/run/redis.sock", database: 9},
		"unix://me:pw@/run/redis%20it.sock": {network: "unix", address: "/run/redis it.sock", username: "me", password: pointerTo("pw")},
	} {
		t.Run(rawURL, func(t *testing.T) {
			c, err := NewClientURL(rawURL)
			require.NoError(t, err)
			defer func() { require.NoError(t, c.Close()) }()
			got := driverConfig{
				network: c.config.network, address: c.config.address, username: c.config.username, password: c.config.password,
				database: c.config.database, useTLS: c.config.useTLS,
			}
			if want.password == nil {
				want.password = new(string)
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
		c, err := NewClientURL(rawURL)
		require.NoError(t, err)
		require.NoError(t, c.Ping(t.Context()))
		require.NoError(t, c.Close())
	}
}
