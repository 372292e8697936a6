package redlock

import (
	"context"

	"github.com/relock-go/relock/internal/lease"
)

// InTheWay returns the hold in ctx that a call would wait for, or nil.
func (l *Lock) InTheWay(ctx context.Context) *lease.Hold { return l.inTheWay(ctx) }
