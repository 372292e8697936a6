package multilock

import (
	"context"

	"github.com/relock-go/relock/internal/acquire"
	"github.com/relock-go/relock/internal/lease"
)

// TakeKeeping is Take for a call that was handed so many keys in vain that it
// keeps some now.
func (l *Lock) TakeKeeping(ctx context.Context) (*lease.Hold, error) {
	h, _, err := acquire.NewWait(ctx, l.Target, true).Run(func(w *acquire.Wait) (*lease.Hold, error) {
		a := &attempt{lock: l, wait: w, misses: maxMisses}
		defer a.end()
		return w.Acquire(a.try)
	})
	return h, err
}
