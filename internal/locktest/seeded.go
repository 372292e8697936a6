package locktest

import (
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
)

// Take acquires the cell's lock once more.
func (c *Cell) Take(kind string, opts ...relock.LockOption) relock.Hold {
	c.Helper()
	h, err := Kinds[kind](CellKey, c.Client, opts...).Acquire(c.Context())
	require.NoError(c, err)
	return h
}
