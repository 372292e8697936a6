package scripttest

import (
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
)

// SetBackWithin runs the last of the scripts repeatedly. Each time it sets the
// clock back one reading later within the script. After each run it checks that
// every key expires. It returns how often the clock was set back.
func (b *Bench) SetBackWithin(clock *redistest.Clock, name string, scripts []script.Call) (jumps int) {
	const jump = 10 * time.Minute
	last := len(scripts) - 1
	for reading, past := 1, 0; past < 3; reading++ { // outside the script the number of readings varies by a few
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

// ClockGrain is the resolution of the server's clock.
const ClockGrain = 2 * time.Millisecond

func (b *Bench) requireExpiries(name string, reading int) {
	b.Helper()
	keys, err := redis.Strings(b.Do("KEYS", "*"), nil)
	require.NoError(b, err)
	for _, key := range keys {
		require.NotEqual(b, int64(-1), b.Do("PTTL", key), "%s, set back at reading %d: %s %s stays for ever", name, reading, key, b.Content(key))
	}
}
