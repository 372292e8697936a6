package test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/test/snippets"
)

// The code of etcd/README.md compiles.
func TestReadmeCode(t *testing.T) {
	t.Parallel()
	check := snippets.NewChecker(t, []string{
		"context", "time", "go.etcd.io/etcd/client/v3", "github.com/relock-go/relock", "github.com/relock-go/relock/etcd",
	}, `
	var (
		ctx context.Context
		pay func(context.Context) error
	)`)
	blocks := snippets.Blocks(t, "../README.md")
	require.NotEmpty(t, blocks)
	for _, block := range blocks {
		require.NoError(t, check.Check(block), block)
	}
}
