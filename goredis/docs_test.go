package goredis_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/snippets"
)

// The code of docs/operations.md compiles.
func TestDocumentedCode(t *testing.T) {
	t.Parallel()
	check := snippets.NewChecker(t, []string{"github.com/redis/go-redis/v9", "github.com/relock-go/relock/goredis"}, "var sentinels []string")
	blocks := snippets.Blocks(t, "../docs/operations.md")
	require.NotEmpty(t, blocks)
	for _, block := range blocks {
		require.NoError(t, check.Check(block), block)
	}
}
