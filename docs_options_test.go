package relock_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/test/locktest"
)

// The table of options and kinds in the package's documentation is right.
func TestTableOfOptions(t *testing.T) {
	t.Parallel()
	c := locktest.Unconnected(t)
	clients := []*relock.Client{c, locktest.Unconnected(t), locktest.Unconnected(t)}
	validate := map[string]func(opt relock.LockOption) error{
		"RedisLock":     func(opt relock.LockOption) error { return relock.NewRedisLock("k", c, opt).Validate() },
		"ReentrantLock": func(opt relock.LockOption) error { return relock.NewReentrantLock("k", c, opt).Validate() },
		"RWLock":        func(opt relock.LockOption) error { return relock.NewRWLock("k", c, opt).Validate() },
		"Semaphore":     func(opt relock.LockOption) error { return relock.NewSemaphore("k", 1, c, opt).Validate() },
		"MultiLock":     func(opt relock.LockOption) error { return relock.NewMultiLock([]string{"k"}, c, opt).Validate() },
		"RedLock":       func(opt relock.LockOption) error { return relock.NewRedLock("k", clients, opt).Validate() },
		"Locker":        func(opt relock.LockOption) error { _, err := relock.NewLocker(c, opt); return err },
	}
	options := map[string]relock.LockOption{
		"WithBlock": relock.WithBlock(), "WithBlockTimeout": relock.WithBlockTimeout(time.Second),
		"WithPollInterval": relock.WithPollInterval(time.Second),
		"WithExpiry":       relock.WithExpiry(10 * time.Second), "WithWatchdog": relock.WithWatchdog(10 * time.Second),
		"WithMaxHold": relock.WithMaxHold(time.Minute),
		"WithMinHold": relock.WithMinHold(time.Second), "WithLabel": relock.WithLabel("l"),
		"WithFair": relock.WithFair(), "WithFencing": relock.WithFencing(),
		"WithQueueLimit": relock.WithQueueLimit(1), "WithReplicas": relock.WithReplicas(1, time.Second),
		"WithMaxLease": relock.WithMaxLease(time.Minute),
	}
	declared := 0
	for _, file := range []string{"lock_options.go", "watchdog.go"} {
		declared += len(regexp.MustCompile(`(?m)^func With.*\) LockOption `).FindAllString(readFile(t, file), -1))
	}
	require.Len(t, options, declared)
	var kinds []string
	for line := range strings.Lines(readFile(t, "doc.go")) {
		cells := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "//"))
		switch {
		case len(cells) == len(validate) && cells[0] == "RedisLock":
			kinds = cells
		case len(cells) == len(validate)+1 && options[cells[0]] != nil:
			for i, cell := range cells[1:] {
				err := validate[kinds[i]](options[cells[0]])
				require.Equal(t, cell != "no", err == nil, "%s of a %s: %v", cells[0], kinds[i], err)
			}
			delete(options, cells[0])
		}
	}
	require.Empty(t, options, "are not in the table")
}

// Each default and limit that a doc comment states is right.
func TestDocumentedDefaults(t *testing.T) {
	t.Parallel()
	client := locktest.Unconnected(t)
	c := relock.ConfigOf(client)
	s := lockspec.Resolve(lockspec.Options{}, lockspec.Options{}, lockspec.Quorum, &lockspec.Problems{})
	want := map[string]string{
		"WithMaxIdle":        fmt.Sprint(c.MaxIdle),
		"WithMaxActive":      fmt.Sprint(c.MaxActive),
		"WithIdleTimeout":    seconds(c.IdleTimeout),
		"WithDialTimeout":    seconds(c.DialTimeout),
		"WithCommandTimeout": seconds(c.CommandTimeout),
		"WithDatabase":       fmt.Sprint(c.Database),
		"WithKeyPrefix":      fmt.Sprintf("%q", locktest.Prefix(client)),
		"WithPollInterval":   s.Poll.String(),
		"WithWatchdog":       seconds(s.Lease),
		"WithMaxLease":       seconds(s.MaxLease),
		"WithUsername":       "the", // server's default user
	}
	docs, got := map[string]string{}, map[string]string{}
	stated := regexp.MustCompile(`The\s+default\s+is\s+([^\s,]+?)[.,]?(\s|$)`)
	for _, file := range []string{
		"options.go", "lock_options.go", "watchdog.go", "hold.go",
		"lock.go", "reentrant.go", "multilock.go", "redlock.go",
	} {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		require.NoError(t, err)
		for _, decl := range parsed.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Doc == nil {
				continue
			}
			doc := strings.Join(strings.Fields(f.Doc.Text()), " ")
			docs[f.Name.Name] = doc
			if match := stated.FindStringSubmatch(doc); match != nil {
				got[f.Name.Name] = match[1]
			}
		}
	}
	require.Equal(t, want, got)
	for limit, names := range map[string]string{
		"10ms to 10 years":               "WithExpiry WithWatchdog WithMinHold WithMaxLease",
		"at most 1024 bytes":             "WithKeyPrefix",
		"1 to 256 bytes":                 "ContextWithOwner",
		"at most 256 bytes":              "WithLabel",
		"1ms to a quarter of the lease":  "WithPollInterval",
		"10ms to a quarter of the lease": "WithReplicas",
		"1 to a million":                 "WithQueueLimit",
		"1 to 1024 bytes":                "NewRedisLock NewReentrantLock NewMultiLock NewRedLock",
		"1 to 100 different ones":        "NewMultiLock",
		"3 or more":                      "NewRedLock",
	} {
		for _, name := range strings.Fields(names) {
			require.Contains(t, docs[name], limit, name)
		}
	}
}

func seconds(d time.Duration) string { return fmt.Sprintf("%ds", int(d.Seconds())) }
