package locktest

import (
	"context"
	"testing"
)

// MarkKey is the key of a mark in a context.
type MarkKey struct{}

// Marked is a context that the hooks know again.
func Marked(t testing.TB) context.Context { return context.WithValue(t.Context(), MarkKey{}, "mine") }
