package locktest

import (
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
)

// WithoutTheThird is a hold of three nodes of which the third does not answer yet.
func (b *RedBench) WithoutTheThird(l *relock.RedLock) relock.Hold {
	b.Helper()
	b.Proxies[2].Stall()
	h, err := l.Acquire(b.Context())
	require.NoError(b, err)
	require.Len(b, MembersOf(h), 2)
	return h
}
