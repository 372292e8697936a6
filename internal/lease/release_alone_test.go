package lease_test

import (
	"io"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
)

const (
	tryAgain = "TRYAGAIN Multiple keys request during rehashing of slot"
	noKeys70 = "NOPERM this user has no permissions to access one of the keys used as arguments" // Redis 6.2 and 7.0
	noKeys72 = "NOPERM No permissions to access a key"                                           // and newer
)

// A Cluster that moves the slot of a lock refuses scripts that name three keys of it, as does a server that permits the lock's alone.
func TestReleaseWhileTheSlotMoves(t *testing.T) {
	t.Parallel()
	s := locktest.NewFaultServer(t)
	for kind, r := range requestsOf {
		for _, refusal := range []string{tryAgain, noKeys70, noKeys72} {
			t.Run(kind+", "+refusal, func(t *testing.T) {
				t.Parallel()
				c := locktest.NewCell(t, s, relock.WithCommandTimeout(4*locktest.AnswerLimit))
				c.Proxy.On(r.release, 1, faults.ErrorLine(refusal))
				h := c.Take(kind)
				require.NoError(t, h.Unlock(t.Context()))
				locktest.RequireFree(t, s, c.Client, locktest.CellKey)
				require.Equal(t, 2, c.Proxy.Count(r.release), "the second for the lock alone")
			})
		}
		t.Run(kind+", in the background", func(t *testing.T) {
			t.Parallel()
			c := locktest.NewCell(t, s, relock.WithCommandTimeout(4*locktest.AnswerLimit))
			h := c.Take(kind)
			c.Proxy.On(r.release, 1, faults.DropRequest)
			c.Proxy.On(r.release, 2, faults.ErrorLine(tryAgain))
			require.NoError(t, h.Unlock(t.Context()))
			locktest.RequireFree(t, s, c.Client, locktest.CellKey)
			require.GreaterOrEqual(t, c.Proxy.Count(r.release), 3, "after the second, for the lock alone")
		})
	}
}

// A user who may touch the lock alone, as one without a queue needs no more, locks and unlocks.
func TestReleaseWithTheLocksKeyAlone(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do(t, "ACL", "SETUSER", "narrow", "on", ">pw", "~relock:{k}", "&*", "+@all")
	c, err := relock.NewClient(s.Network, s.Address, "pw", relock.WithUsername("narrow"))
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	for name, newLock := range locktest.Kinds {
		l := newLock("k", c)
		require.NoError(t, l.Lock(t.Context()), name)
		require.NoError(t, l.Unlock(t.Context()), name)
		locktest.RequireFree(t, s, c, "k")
		require.ErrorIs(t, newLock("other", c).Lock(t.Context()), relock.ErrDenied)
	}
}

// Which refusals name the keys of a script, as each server says it. A command in a script is refused in other words.
func TestNeedsAlone(t *testing.T) {
	t.Parallel()
	for line, needs := range map[string]bool{
		tryAgain:                          true,
		noKeys70:                          true,
		noKeys72:                          true,
		"NOAUTH Authentication required.": false,
		"NOPERM this user has no permissions to run the 'evalsha' command or its subcommand":                         false,
		"NOPERM User app has no permissions to run the 'evalsha' command":                                            false,
		"ERR ACL failure in script: No permissions to access a key script: 1b2c, on @user_script:3.":                 false,
		"ERR The user executing the script can't access at least one of the keys mentioned in the command arguments": false,
	} {
		require.Equal(t, needs, driver.AreKeysRefused(driver.Explain(redis.Error(line))), line)
	}
	require.False(t, driver.AreKeysRefused(io.EOF))
}
