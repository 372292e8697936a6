package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPagesAreWrapped(t *testing.T) {
	t.Parallel()
	table := "| " + strings.Repeat("a cell | ", 20) + "\n"
	text := wrapped(strings.Repeat("words ", 17) + "end\n\n" + table)
	require.Equal(t, strings.Repeat("words ", 15)+"words\nwords end\n\n"+table, text)
}
