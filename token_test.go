package relock_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/test/locktest"
)

// mistakesIn returns texts that differ from a token a little.
func mistakesIn(token string) (all []string) {
	const letters = "ABYZabyz0189-_.=+/ \n\x00"
	for i := range len(token) {
		one := token[i : i+1]
		all = append(all, token[:i]+token[i+1:], token[:i]+one+one+token[i+1:], token[:i])
		for _, other := range letters + strings.ToUpper(one) + strings.ToLower(one) {
			all = append(all, token[:i]+string(other)+token[i+1:], token[:i]+string(other)+token[i:])
		}
		for bit := range 8 {
			all = append(all, token[:i]+string([]byte{token[i] ^ 1<<bit})+token[i+1:])
		}
		if i > 0 && token[i-1] != token[i] {
			all = append(all, token[:i-1]+one+token[i-1:i]+token[i+1:])
		}
	}
	for _, other := range letters {
		all = append(all, token+string(other))
	}
	return append(all, token+token)
}

// A token with one mistake in it is refused, whichever character it is. The
// token itself can still be used.
func TestChangedTokenIsRefused(t *testing.T) {
	eachDetachable(t, func(t *detaching) {
		token := detached(t, t.a, t.take(t.a, relock.WithFencing(), relock.WithMinHold(10*time.Millisecond)), time.Hour)
		tried := 0
		for _, text := range mistakesIn(token) {
			if text == token {
				continue
			}
			tried++
			_, err := t.b.Resume(t.Context(), text)
			require.ErrorIs(t, err, relock.ErrInvalid, "%q instead of %q", text, token)
			require.False(t, len(text) > 20 && strings.Contains(err.Error(), text), "the error has the token")
		}
		require.Greater(t, tried, 40*len(token))
		require.NoError(t, resumed(t, t.b, token).Unlock(t.Context()))
	})
}

// A fencing token that Redis has not given is refused, even if the checksum is
// right. It would pass a guard that then refuses all later holders. The lock
// stays as it was.
func TestFenceOfATokenWasGiven(t *testing.T) {
	eachDetachable(t, func(t *detaching) {
		h := t.take(t.a, relock.WithFencing())
		token := detached(t, t.a, h, time.Hour)
		forged := func(fence int64) string {
			d, err := lockspec.ReadToken(token)
			require.NoError(t, err)
			d.Fence = fence
			return d.Token()
		}
		counter := locktest.KeyOf(t.a, "k") + ":f"
		requireRefused := func(fence int64) {
			t.Helper()
			before := locktest.Inspect(t, t.a, "k").Holder
			_, err := t.b.Resume(t.Context(), forged(fence))
			require.ErrorIs(t, err, relock.ErrInvalid)
			require.ErrorContains(t, err, "its fencing token is higher")
			require.Equal(t, before, locktest.Inspect(t, t.a, "k").Holder)
		}
		last := h.Fence() + 1000 // grants set some aside
		requireRefused(last)
		requireRefused(1<<63 - 1)
		t.s.Do(t, "DEL", counter) // as if it had expired
		requireRefused(h.Fence() + 24*time.Hour.Microseconds())

		next := resumed(t, t.b, token)
		require.Equal(t, h.Fence(), next.Fence())
		require.NoError(t, next.Unlock(t.Context()))
		after := t.take(t.a, relock.WithFencing())
		require.Greater(t, after.Fence(), next.Fence())
	})
}
