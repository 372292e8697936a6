package holds

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

type key struct{}

// The context of a hook has the values of its parent. It is not cancelled with
// it, and package context does not take it for a cancelled one either. It
// allocates nothing, so it is not parallel: others would count.
func TestValues(t *testing.T) {
	number, cancellation := new(int), new(int)
	parent, cancel := context.WithCancelCause(context.WithValue(context.WithValue(t.Context(), key{}, "value"), number, 7))
	parent = context.WithValue(parent, cancellation, t.Context()) // as package context finds it
	parent, stop := context.WithTimeout(parent, time.Hour)
	defer stop()
	r := NewReport(parent, func(context.Context, End) {}, nil, "key", "plain", time.Now())
	ctx := context.Context(&r.values)
	child, cancelChild := context.WithCancelCause(ctx)
	cancel(errors.New("over"))
	<-parent.Done()

	require.Equal(t, "value", ctx.Value(key{}))
	require.Equal(t, 7, ctx.Value(number))
	require.Nil(t, ctx.Value("other"))
	require.Nil(t, ctx.Value(cancellation))
	require.Nil(t, ctx.Done())
	require.NoError(t, ctx.Err())
	require.NoError(t, context.Cause(ctx))
	_, limited := ctx.Deadline()
	require.False(t, limited)
	require.NoError(t, context.Cause(child), "nor is a child")
	require.True(t, context.AfterFunc(ctx, func() {})(), "nothing runs after it")
	require.Zero(t, testing.AllocsPerRun(100, func() { _ = ctx.Value(key{}) }))
	cancelChild(errors.New("its own"))
	require.EqualError(t, context.Cause(child), "its own")
	require.Equal(t, "value", child.Value(key{}))
}
