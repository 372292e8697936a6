package driver

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/testkit"
)

// The context of a call of the topology ends with its parent, with the router,
// after its limit, and when the call has ended.
func TestQuestionEnds(t *testing.T) {
	for name, tt := range map[string]struct {
		limit Limits
		end   func(q *question, caller, router func())
		after time.Duration
		err   error
	}{
		"caller":       {Limits{}, func(_ *question, caller, _ func()) { caller() }, 0, context.Canceled},
		"router":       {Limits{}, func(_ *question, _, router func()) { router() }, 0, context.Canceled},
		"call":         {Limits{}, func(q *question, _, _ func()) { q.end() }, 0, context.Canceled},
		"dial timeout": {Limits{}, func(*question, func(), func()) {}, time.Minute, context.DeadlineExceeded},
		"limit":        {Limits{Connect: time.Second}, func(*question, func(), func()) {}, time.Second, context.DeadlineExceeded},
	} {
		for _, early := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				testkit.Bubble(t, func(t *testing.T) {
					r := NewRouter(&Config{DialTimeout: time.Minute}, &Topology{})
					ctx, cancel := context.WithCancel(t.Context())
					q := r.ask(ctx, tt.limit)
					defer q.end()
					if early {
						require.NoError(t, q.Err())
					}
					began := time.Now()
					tt.end(q, cancel, r.end)
					<-q.Done()
					require.Equal(t, tt.after, time.Since(began))
					require.ErrorIs(t, q.Err(), tt.err)
					cancel()
				})
			})
		}
	}
}

// A call that a topology answers from memory allocates nothing. A context that
// was used, or may be kept, ends with the call.
func TestQuestionIsUsedAgain(t *testing.T) {
	r := NewRouter(&Config{DialTimeout: time.Minute}, &Topology{})
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		q := r.ask(t.Context(), Limits{})
		Unkept(q)
		q.end()
	}))
	for name, use := range map[string]func(*question){
		"kept":          func(*question) {},
		"used":          func(q *question) { q.Done() },
		"used, no more": func(q *question) { q.Done(); Unkept(q) },
	} {
		q := r.ask(t.Context(), Limits{})
		use(q)
		q.end()
		require.NotNil(t, q.Context, "%s: another call has it", name)
		require.ErrorIs(t, q.Err(), context.Canceled, name)
	}
	Unkept(t.Context()) // another context
}
