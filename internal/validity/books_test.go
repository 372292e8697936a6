package validity

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/goroutines"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/suspend"
	"github.com/relock-go/relock/internal/test/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// plain is a grant that is not renewed, and counts its losses.
type plain struct {
	Renewal
	in   *Books
	key  string
	lost int
}

func (p *plain) Books() *Books { return p.in }

func (p *plain) Renew(time.Duration) script.Call { return script.Call{} }
func (p *plain) LockKey() string                 { return p.key }

func (p *plain) Ended(error) (follow func()) {
	p.lost++
	return p.Leave
}

// newBooks returns books without a server, for what depends on time only.
func newBooks(t *testing.T) *Books {
	life, end := context.WithCancel(t.Context())
	group := &goroutines.Group{}
	b := New(Config{
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Life:   life, Tasks: group, Clocks: suspend.MachineClocks(),
	})
	t.Cleanup(func() {
		end()
		b.Close()
		group.Wait()
	})
	return b
}

// grant returns a grant of the key in these books, for a second.
func (b *Books) grant(t *testing.T, key string) *plain {
	p := &plain{in: b, key: key}
	p.SetUp(p, key, time.Now(), &lockspec.Spec{Kind: lockspec.Plain, Lease: time.Second})
	_, err := p.Start(time.Now())
	require.NoError(t, err)
	return p
}

// Grants that have ended leave neither a timer nor an entry in the books,
// whether the timer has ended them or their holder.
func TestEndedGrantsLeaveNothing(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		b := newBooks(t)
		expired, ended := b.grant(t, "a"), b.grant(t, "a")
		require.Equal(t, []*Renewal{&ended.Renewal, &expired.Renewal}, b.Of("a"))
		require.Len(t, b.expiry.grants, 2)

		require.NoError(t, ended.End(errs.ErrNotHeld))
		require.Equal(t, []*Renewal{&expired.Renewal}, b.All())
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, errs.LeaseOver, expired.Err())
		require.Equal(t, 1, expired.lost)
		require.Empty(t, b.All())
		require.Empty(t, b.expiry.grants)
	})
}

// Sealed books take no grant.
func TestSealedBooks(t *testing.T) {
	b := newBooks(t)
	b.Seal()
	p := &plain{in: b, key: "k"}
	p.SetUp(p, "k", time.Now(), &lockspec.Spec{Kind: lockspec.Plain, Lease: time.Second})
	_, err := p.Start(time.Now())
	require.ErrorIs(t, err, errs.ErrClosed)
	require.Empty(t, b.All())
}
