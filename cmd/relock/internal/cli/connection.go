package cli

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/relock-go/relock"
)

const defaultURL = "redis://localhost:6379"

// connection has the flags of all commands: where the locks are.
type connection struct {
	url, urlFile, prefix string
	timeout              seconds
	verbose              bool
}

func (c *connection) addFlags(flags *pflag.FlagSet) {
	c.timeout = seconds(5 * time.Second)
	flags.StringVar(&c.url, "redis",
		"", "URL of the server, Sentinels or Cluster (default RELOCK_URL, else REDIS_URL, else "+defaultURL+")")
	flags.StringVar(&c.urlFile, "redis-file", "", "file with that URL, for one that has a password")
	flags.StringVar(&c.prefix, "prefix", "", "prefix of the names of locks in Redis (default \"relock:\")")
	flags.Var(&c.timeout, "timeout", "limit of connecting and of each request")
	flags.BoolVarP(&c.verbose, "verbose", "v", false, "write to stderr what happens, also if nothing is wrong")
}

// connect returns a client. It makes no network call.
func (c *connection) connect(stderr io.Writer, opts ...relock.ClientOption) (*relock.Client, error) {
	url, err := c.address()
	if err != nil {
		return nil, err
	}
	opts = append(opts,
		relock.WithDialTimeout(time.Duration(c.timeout)), relock.WithCommandTimeout(time.Duration(c.timeout)))
	if c.prefix != "" {
		opts = append(opts, relock.WithKeyPrefix(c.prefix))
	}
	if c.verbose {
		opts = append(opts, relock.WithLogger(slog.New(slog.NewTextHandler(stderr, nil))))
	}
	return relock.NewClientURL(url, opts...)
}

// with calls f with a client that holds nothing, and closes it.
func (c *connection) with(stderr io.Writer, f func(*relock.Client) error) error {
	client, err := c.connect(stderr)
	if err != nil {
		return err
	}
	defer client.Close() //nolint:errcheck // it holds nothing
	return f(client)
}

// address returns the URL of the server.
func (c *connection) address() (string, error) {
	if c.urlFile == "" {
		return cmp.Or(c.url, os.Getenv("RELOCK_URL"), os.Getenv("REDIS_URL"), defaultURL), nil
	}
	text, err := os.ReadFile(c.urlFile)
	if err != nil {
		return "", fmt.Errorf("--redis-file: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}
