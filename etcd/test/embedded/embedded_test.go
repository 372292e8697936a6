package embedded

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/goleak"
	"go.uber.org/zap"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Neither a stopped server nor one that failed to start leaves its folder.
func TestFolderGoesWithTheServer(t *testing.T) {
	parent := t.TempDir()
	t.Setenv("TMPDIR", parent)
	address, stop, err := Start()
	require.NoError(t, err)
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{address}, Logger: zap.NewNop()})
	require.NoError(t, err)
	defer func() { _ = client.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err = client.Put(ctx, "key", "value")
	require.NoError(t, err)
	stop()
	require.Empty(t, entries(t, parent))

	_, _, err = start(func(cfg *embed.Config) { cfg.ElectionMs = cfg.TickMs })
	require.Error(t, err)
	require.Empty(t, entries(t, parent))
}

func entries(t *testing.T, dir string) []os.DirEntry {
	t.Helper()
	found, err := os.ReadDir(dir)
	require.NoError(t, err)
	return found
}
