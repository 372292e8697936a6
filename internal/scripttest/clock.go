package scripttest

import (
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
)

// SetBackWithin runs the last of the scripts again and again, and sets the clock back at one more reading each time. It returns how often
// that was.
func (b *Bench) SetBackWithin(clock *redistest.Clock, name string, scripts []script.Call) (jumps int) {
	const jump = 10 * time.Minute
	last := len(scripts) - 1
	for reading, past := 1, 0; past < 3; reading++ { // what the server reads beside the script differs by a few
		b.Do("FLUSHALL")
		for _, s := range scripts[:last] {
			_, err := b.Try(s)
			require.NoError(b, err, name)
		}
		clock.AdvanceAtReading(b, reading, -jump)
		_, err := b.Try(scripts[last])
		require.NoError(b, err, name)
		if !clock.Settle(b) {
			past++
			continue
		}
		jumps++
		b.requireExpiries(name, reading)
		clock.Advance(b, jump)
	}
	return jumps
}

// ClockGrain is how coarsely the server counts.
const ClockGrain = 2 * time.Millisecond

func (b *Bench) requireExpiries(name string, reading int) {
	b.Helper()
	keys, err := redis.Strings(b.Do("KEYS", "*"), nil)
	require.NoError(b, err)
	for _, key := range keys {
		require.NotEqual(b, int64(-1), b.Do("PTTL", key), "%s, set back at reading %d: %s %s stays for ever", name, reading, key, b.Content(key))
	}
}
