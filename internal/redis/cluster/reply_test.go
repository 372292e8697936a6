package cluster

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/test/redistest"
)

// list is an array in a reply. A string is a bulk string, an int a number.
func list(values ...any) []any {
	for i, v := range values {
		switch v := v.(type) {
		case string:
			values[i] = []byte(v)
		case int:
			values[i] = int64(v)
		}
	}
	return values
}

// nodeOf is a node in a reply to CLUSTER SHARDS, as Redis 7.0 has it.
func nodeOf(endpoint any, role, health string, more ...any) []any {
	return list(append([]any{
		"id", "5aca671a", "port", 6379, "ip", "10.0.0.9", "endpoint",
		endpoint, "role", role, "replication-offset", 72156, "health", health,
	}, more...)...)
}

// What servers answer to CLUSTER SHARDS, by their versions and settings.
func TestShardsOfServers(t *testing.T) {
	t.Parallel()
	shard := func(nodes ...any) []any { return list(list("slots", list(0, 16383), "nodes", list(nodes...))) }
	encrypted := []any{"tls-port", 6380}
	for name, tt := range map[string]struct {
		reply  any
		tls    bool
		master string // of all slots
		nodes  []string
	}{
		"Redis 7.0": {
			shard(nodeOf("10.0.0.1", "master", "online"), nodeOf("10.0.0.2", "replica", "online")),
			false, "10.0.0.1:6379",
			[]string{"10.0.0.1:6379", "10.0.0.2:6379"},
		},
		"the replica first": {
			shard(nodeOf("10.0.0.2", "replica", "online"), nodeOf("10.0.0.1", "master", "online")),
			false, "10.0.0.1:6379",
			[]string{"10.0.0.2:6379", "10.0.0.1:6379"},
		},
		"Valkey 8": {
			shard(nodeOf("a.example", "master", "online", "hostname", "a.example", "availability-zone", "zone-1")),
			false, "a.example:6379",
			[]string{"a.example:6379"},
		},
		"Redis 7.2, shard id": {
			list(list("slots", list(0, 16383), "nodes", list(nodeOf("10.0.0.1", "master", "online")), "id",
				"0a", "more", list(1))), false, "10.0.0.1:6379",
			[]string{"10.0.0.1:6379"},
		},
		"a failed master beside its successor": {
			shard(nodeOf("10.0.0.1", "master", "fail"), nodeOf("10.0.0.2", "master", "online")), false, "10.0.0.2:6379",
			[]string{"10.0.0.2:6379"},
		},
		"the port of TLS": {
			shard(nodeOf("10.0.0.1", "master", "online", encrypted...)), true, "10.0.0.1:6380", []string{"10.0.0.1:6380"},
		},
		"the port without TLS": {
			shard(nodeOf("10.0.0.1", "master", "online", encrypted...)), false, "10.0.0.1:6379", []string{"10.0.0.1:6379"},
		},
		"TLS, but not at the nodes": {
			shard(nodeOf("10.0.0.1", "master", "online")), true, "10.0.0.1:6379", []string{"10.0.0.1:6379"},
		},
		"an empty endpoint": {shard(nodeOf("", "master", "online")), false, "asked:6379", []string{"asked:6379"}},
		"no endpoint":       {shard(nodeOf(nil, "master", "online")), false, "asked:6379", []string{"asked:6379"}},
		"an endpoint ?":     {shard(nodeOf("?", "master", "online")), false, "asked:6379", []string{"asked:6379"}},
		"an IPv6 endpoint": {
			shard(nodeOf("fe80::1", "master", "online")), false, "[fe80::1]:6379", []string{"[fe80::1]:6379"},
		},
	} {
		v, err := (&reader{asked: "asked:1", tls: tt.tls}).read((*reader).shards, tt.reply)
		require.NoError(t, err, name)
		require.Equal(t, tt.nodes, v.nodes, name)
		require.Equal(t, []string{tt.master}, v.table.owners(), name)
		require.Equal(t, tt.master, v.table.master(0), name)
		require.Equal(t, tt.master, v.table.master(16383), name)
	}
	parts := list(list("slots", list(0, 0, 2, 99), "nodes", list(nodeOf("10.0.0.1", "master", "online"))),
		list("slots", list(), "nodes", list(nodeOf("10.0.0.3", "master", "online"))),
		list("slots", list(1, 1), "nodes", list(nodeOf("10.0.0.2", "master", "loading"))))
	v, err := (&reader{asked: "asked:1"}).read((*reader).shards, parts)
	require.NoError(t, err)
	require.Equal(t, []string{"10.0.0.1:6379", "", "10.0.0.1:6379", ""},
		[]string{v.table.master(0), v.table.master(1), v.table.master(99), v.table.master(100)})
	require.Equal(t, []string{"10.0.0.1:6379"}, v.table.owners(), "a master without slots has no keys")
}

// What servers answer to CLUSTER SLOTS.
func TestSlotsOfServers(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		host any
		want string
	}{
		"an address": {"10.0.0.1", "10.0.0.1:6379"}, "none": {nil, "asked:6379"}, "empty": {"", "asked:6379"},
		"unknown": {"?", "asked:6379"},
	} {
		reply := list(list(0, 9, list(tt.host, 6379, "id", list("hostname", "a.example")), list("10.0.0.2", 6379, "id")),
			list(20, 16383, list("10.0.0.3", 6379)))
		v, err := (&reader{asked: "asked:1"}).read((*reader).ranges, reply)
		require.NoError(t, err, name)
		require.Equal(t, []string{tt.want, "10.0.0.2:6379", "10.0.0.3:6379"}, v.nodes)
		require.Equal(t, []string{tt.want, tt.want, "", "10.0.0.3:6379"},
			[]string{v.table.master(0), v.table.master(9), v.table.master(10), v.table.master(16383)})
	}
}

// A server without a host is at the machine that has answered, and so is one
// with a loopback address, which is the user's if it is mapped.
func TestNamed(t *testing.T) {
	t.Parallel()
	for _, tt := range [][4]string{
		{"10.0.0.1:7", "10.0.0.2", "8", "10.0.0.2:8"},
		{"10.0.0.1:7", "", "8", "10.0.0.1:8"},
		{"10.0.0.1:7", "?", "8", "10.0.0.1:8"},
		{"10.0.0.1:7", "127.0.0.1", "8", "10.0.0.1:8"},
		{"redis.example:7", "127.0.0.1", "8", "redis.example:8"},
		{"127.0.0.1:7", "127.0.0.2", "8", "127.0.0.2:8"},
		{"localhost:7", "127.0.0.1", "8", "127.0.0.1:8"},
		{"[fd00::1]:7", "fd00::2", "8", "[fd00::2]:8"},
		{"[fd00::1]:7", "", "8", "[fd00::1]:8"},
		{":7", "", "8", ":8"}, // which is localhost
		{":7", "127.0.0.1", "8", "127.0.0.1:8"},
		{"no port", "", "8", ""},
		{"no port", "127.0.0.1", "8", "127.0.0.1:8"},
		{"10.0.0.1:7", "10.0.0.2", "0", ""},
	} {
		address, err := named(nil, tt[0], tt[1], tt[2])
		require.NoError(t, err)
		require.Equal(t, tt[3], address, tt)
	}
	address, err := named(func(address string) string { return "mapped " + address }, "10.0.0.1:7", "127.0.0.1", "8")
	require.NoError(t, err)
	require.Equal(t, "mapped 127.0.0.1:8", address)
}

// A reply that is none is a mistake of the address.
func TestRepliesThatAreWrong(t *testing.T) {
	t.Parallel()
	node := list("10.0.0.1", 6379)
	for _, reply := range []any{
		nil, "OK", list("x"), list(list()), list(list(0, 1)), list(list(1, 0, node)), list(list(-1, 0, node)),
		list(list(0, 16384, node)), list(list("a", 1, node)),
		list(list(0, 1, "x")), list(list(0, 1, list("h"))),
	} {
		_, err := (&reader{asked: "asked:1"}).read((*reader).ranges, reply)
		require.ErrorIs(t, err, errs.ErrInvalid, reply)
	}
	for _, reply := range []any{
		nil, "OK", list("x"), list(list()), list(list("slots", "x")), list(list("slots", list(0))),
		list(list("slots", list(0, 16384))), list(list("slots", list(2, 1))),
	} {
		_, err := (&reader{asked: "asked:1"}).read((*reader).shards, reply)
		require.ErrorIs(t, err, errs.ErrInvalid, reply)
	}
	for _, reply := range []any{list(), list(list("slots", list(0, 1), "nodes", list())), list(list("slots", list(0, 1),
		"nodes", list(nodeOf("h", "master", "fail"))))} {
		_, err := (&reader{asked: "asked:1"}).read((*reader).shards, reply)
		require.ErrorIs(t, err, errEmpty, reply)
	}
}

// replyOf builds a reply from any bytes, and returns those that are left.
func replyOf(data []byte, depth int) (reply any, left []byte) {
	if len(data) == 0 {
		return nil, nil
	}
	words := []string{
		"slots", "nodes", "health", "online", "role", "master", "endpoint", "port", "tls-port", "10.0.0.1", "?", "", "fail",
	}
	kind, data := data[0], data[1:]
	switch {
	case kind < 60 && depth < 5:
		var values []any
		for range kind % 8 {
			var value any
			value, data = replyOf(data, depth+1)
			values = append(values, value)
		}
		return values, data
	case kind < 160:
		return []byte(words[int(kind)%len(words)]), data
	case kind < 240:
		return int64(kind-160) * 207, data
	}
	return nil, data
}

// Whatever a server answers, nothing panics, and each address in the table has
// a host and a port.
func FuzzRepliesOfClusters(f *testing.F) {
	f.Add([]byte{1, 4, 60, 2, 160, 239, 61, 1, 6, 62, 63, 64, 65, 66, 69}, true)
	f.Add([]byte{1, 3, 160, 239, 2, 69, 190}, false)
	f.Fuzz(func(t *testing.T, data []byte, encrypted bool) {
		reply, _ := replyOf(data, 0)
		for _, parse := range []func(*reader, any) error{(*reader).shards, (*reader).ranges} {
			v, err := (&reader{asked: "asked:1", tls: encrypted}).read(parse, reply)
			if err != nil {
				continue
			}
			require.NotEmpty(t, v.table.owners())
			for _, address := range append(v.table.owners(), v.nodes...) {
				host, port, err := net.SplitHostPort(address)
				require.NoError(t, err)
				require.NotEmpty(t, host)
				require.NotEqual(t, "0", port)
			}
		}
	})
}

// Over TLS the client uses the port for it, and each server has to prove its
// name.
func TestClusterOverTLS(t *testing.T) {
	t.Parallel()
	web := httptest.NewTLSServer(nil) // for its certificate of 127.0.0.1
	defer web.Close()
	certificate, key := pemFiles(t, web.TLS.Certificates[0])
	port := redistest.FreePort(t)
	s := redistest.StartCluster(t, 1, 0, "--tls-port", port, "--tls-cluster", "yes", "--tls-cert-file", certificate,
		"--tls-key-file", key, "--tls-ca-cert-file", certificate, "--tls-auth-clients", "no")
	trusted := x509.NewCertPool()
	trusted.AddCert(web.Certificate())
	encrypted := func(c *Config) {
		c.Servers.UseTLS, c.Servers.TLS = true, &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}
	}
	p := clusterOf(t, []string{"127.0.0.1:" + port}, encrypted)
	masters, err := p.Masters(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"127.0.0.1:" + port}, masters)
	requireFound(t, clusterOf(t, s.Addresses()), s)
	_, err = clusterOf(t, []string{"localhost:" + port}, encrypted).Masters(t.Context())
	require.ErrorContains(t, err, "certificate")
	p = clusterOf(t, []string{"localhost:" + port}, encrypted, func(c *Config) { c.Servers.TLS.ServerName = "127.0.0.1" })
	_, err = p.Masters(t.Context())
	require.NoError(t, err, "the config has the name")
}

// pemFiles writes a certificate and its key to files.
func pemFiles(t testing.TB, c tls.Certificate) (certificate, key string) {
	t.Helper()
	bytes, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	require.NoError(t, err)
	write := func(name string, block *pem.Block) string {
		path := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(block), 0o600))
		return path
	}
	return write("cert", &pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]}),
		write("key", &pem.Block{Type: "PRIVATE KEY", Bytes: bytes})
}
