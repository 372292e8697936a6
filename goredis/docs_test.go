package goredis_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/test/testkit"
)

// The code of docs/clients.md compiles.
func TestDocumentedCode(t *testing.T) {
	t.Parallel()
	check := testkit.NewCodeChecker(t, []string{
		"crypto/tls", "crypto/x509", "net/http", "github.com/redis/go-redis/v9", "github.com/relock-go/relock",
		"github.com/relock-go/relock/goredis", "github.com/relock-go/relock/relockweb",
	}, "var (\n\tsentinels []string\n\tca []byte\n\tclient *relock.Client\n)")
	blocks := testkit.CodeBlocks(t, "../docs/clients.md")
	require.NotEmpty(t, blocks)
	for _, block := range blocks {
		require.NoError(t, check.Check(block), block)
	}
}
