package driver

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// A text is no status, and no count: a server that answers so has not run the
// script.
func TestNumbersOfReplies(t *testing.T) {
	t.Parallel()
	for _, reply := range []any{int64(3), []any{int64(3)}, []any{int64(3), []byte("x")}} {
		code, ok := Status(reply)
		require.True(t, ok)
		require.EqualValues(t, 3, code)
	}
	for _, reply := range []any{nil, "3", []byte("3"), []any{}, []any{[]byte("3")}, []any{nil, int64(3)}} {
		_, ok := Status(reply)
		require.False(t, ok, "%v", reply)
	}
	one, err := Int64s(int64(2), nil)
	require.NoError(t, err)
	require.Equal(t, []int64{2}, one)
	two, err := Int64s([]any{int64(1), int64(2)}, nil)
	require.NoError(t, err)
	require.Equal(t, []int64{1, 2}, two)
	_, err = Int64s([]byte("2"), nil)
	require.Error(t, err)
	failed := errors.New("failed")
	_, err = Int64s(int64(2), failed)
	require.ErrorIs(t, err, failed)
}

func TestTextsOfReplies(t *testing.T) {
	t.Parallel()
	for reply, word := range map[any]string{"a": "a", int64(7): "7", nil: "", 1.5: ""} {
		require.Equal(t, word, Word(reply))
	}
	require.Equal(t, "a", Word([]byte("a")))
	require.Equal(t, 3, Size([]any{[]byte("ab"), int64(100), nil, []byte("c")}))
}
