package test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/test/testkit"
)

// The code of etcd/README.md compiles.
func TestReadmeCode(t *testing.T) {
	t.Parallel()
	check := testkit.NewCodeChecker(t, []string{
		"context", "time", "go.etcd.io/etcd/client/v3", "github.com/relock-go/relock", "github.com/relock-go/relock/etcd",
	}, `
	var (
		ctx context.Context
		pay func(context.Context) error
	)`)
	blocks := testkit.CodeBlocks(t, "../README.md")
	require.NotEmpty(t, blocks)
	for _, block := range blocks {
		require.NoError(t, check.Check(block), block)
	}
}
