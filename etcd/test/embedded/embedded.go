// Package embedded runs an etcd server inside the process, for benchmarks, and
// for the processes of package member.
package embedded

import (
	"cmp"
	"net/url"
	"os"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"github.com/relock-go/relock/etcd/test/internal/member"
	"github.com/relock-go/relock/internal/test/redistest"
)

// Start runs a server with the default clocks on free ports. It returns when
// the server answers. Stopping it deletes its data.
func Start() (address string, stop func(), err error) {
	return start(func(*embed.Config) {})
}

// start lets a test change the config.
func start(change func(*embed.Config)) (address string, stop func(), err error) {
	dir, err := os.MkdirTemp("", "relock-etcd")
	if err != nil {
		return "", nil, err
	}
	server, err := startIn(dir, change)
	if err != nil {
		_ = os.RemoveAll(dir)
		return "", nil, err
	}
	return server.Config().ListenClientUrls[0].Host, func() { server.Close(); _ = os.RemoveAll(dir) }, nil
}

func startIn(dir string, change func(*embed.Config)) (*embed.Etcd, error) {
	client, err := redistest.FindPort()
	if err != nil {
		return nil, err
	}
	peer, err := redistest.FindPort()
	if err != nil {
		return nil, err
	}
	cfg := config(dir, "127.0.0.1:"+client, "127.0.0.1:"+peer)
	change(cfg)
	return run(cfg)
}

// StartStrict is Start with a limit for the operations of a transaction.
func StartStrict(ops uint) (address string, stop func(), err error) {
	return start(func(c *embed.Config) { c.MaxTxnOps = ops })
}

// StartMember runs a member that keeps its data, but not safe from a crash of
// the machine.
func StartMember(c member.Config) (stop func(), err error) {
	cfg := config(c.Dir, c.Client, c.Peer)
	cfg.Name, cfg.InitialCluster = c.Name, c.Cluster
	cfg.BcryptCost, cfg.UnsafeNoFsync = 4, true
	cfg.TickMs, cfg.ElectionMs = cmp.Or(c.TickMs, cfg.TickMs), cmp.Or(c.ElectionMs, cfg.ElectionMs)
	cfg.AuthTokenTTL, cfg.MaxTxnOps = cmp.Or(c.AuthTokenTTL, cfg.AuthTokenTTL), cmp.Or(c.MaxTxnOps, cfg.MaxTxnOps)
	server, err := run(cfg)
	if err != nil {
		return nil, err
	}
	return server.Close, nil
}

// run starts a server, and waits until it answers.
func run(cfg *embed.Config) (*embed.Etcd, error) {
	server, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, err
	}
	select {
	case <-server.Server.ReadyNotify():
		return server, nil
	case err := <-server.Err():
		server.Close()
		return nil, err
	}
}

// config is that of one server, with its data in dir.
func config(dir, client, peer string) *embed.Config {
	cfg := embed.NewConfig()
	cfg.Dir = dir
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	cfg.ListenClientUrls = []url.URL{{Scheme: "http", Host: client}}
	cfg.ListenPeerUrls = []url.URL{{Scheme: "http", Host: peer}}
	cfg.AdvertiseClientUrls, cfg.AdvertisePeerUrls = cfg.ListenClientUrls, cfg.ListenPeerUrls
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	return cfg
}
