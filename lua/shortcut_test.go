package lua_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/script"
)

// shortcut is a kind of lock whose scripts have paths in front of the functions
// of the queue.
type shortcut struct {
	full    map[*script.Script]*script.Script // the scripts without these paths
	request func(random *rand.Rand, mode string, seq int) (script.Call, string)
	end     func(random *rand.Rand, mode string, locks ...*Queue) []string // what may end in between
	content func(t *testing.T, b *Queue) []string
}

// requireSame runs random requests, by the scripts with and without the paths.
// Both must answer the same and leave the same.
func (s shortcut) requireSame(t *testing.T) {
	const histories, steps = 100, 20
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // no secret
	for range histories {
		fast, slow := NewQueue(t, server), NewQueue(t, server)
		slow.Key += "slow"
		slow.Clear()
		mode := "fu"[random.IntN(2):][:1]
		var done []string
		for seq := 2; seq < steps+2; seq++ {
			done = append(done, s.end(random, mode, fast, slow)...)
			call, name := s.request(random, mode, seq)
			done = append(done, name)
			call.Key = fast.Key
			got, err := fast.Try(call)
			require.NoError(t, err, done)
			call.Key = slow.Key
			if other := s.full[call.Script]; other != nil {
				call.Script = other
			}
			want, err := slow.Try(call)
			require.NoError(t, err, done)
			require.Equal(t, codeOf(want), codeOf(got), done)
			require.Equal(t, s.content(t, slow), s.content(t, fast), done)
		}
	}
}
