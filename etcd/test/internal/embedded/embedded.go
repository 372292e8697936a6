// Package embedded runs an etcd server inside the process, for tests and
// benchmarks.
package embedded

import (
	"net/url"
	"os"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"github.com/relock-go/relock/internal/ports"
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
	cfg, err := Config(dir)
	if err != nil {
		return nil, err
	}
	change(cfg)
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

// Config is that of one server on free ports, with its data in dir.
func Config(dir string) (*embed.Config, error) {
	cfg := embed.NewConfig()
	cfg.Dir = dir
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	for _, urls := range []*[]url.URL{&cfg.ListenClientUrls, &cfg.ListenPeerUrls} {
		port, err := ports.Free()
		if err != nil {
			return nil, err
		}
		*urls = []url.URL{{Scheme: "http", Host: "127.0.0.1:" + port}}
	}
	cfg.AdvertiseClientUrls, cfg.AdvertisePeerUrls = cfg.ListenClientUrls, cfg.ListenPeerUrls
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	return cfg, nil
}
