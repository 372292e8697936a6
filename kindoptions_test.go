package relock_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
)

// The table of options and kinds in the package's documentation is what the kinds honour.
func TestTableOfOptions(t *testing.T) {
	c := locktest.NewTestClient(t, redistest.Shared(t))
	clients := []*relock.Client{c, locktest.NewTestClient(t, redistest.Shared(t)), locktest.NewTestClient(t, redistest.Shared(t))}
	validate := map[string]func(opt relock.LockOption) error{
		"RedisLock":     func(opt relock.LockOption) error { return relock.NewRedisLock("k", c, opt).Validate() },
		"ReentrantLock": func(opt relock.LockOption) error { return relock.NewReentrantLock("k", c, opt).Validate() },
		"RWLock":        func(opt relock.LockOption) error { return relock.NewRWLock("k", c, opt).Validate() },
		"MultiLock":     func(opt relock.LockOption) error { return relock.NewMultiLock([]string{"k"}, c, opt).Validate() },
		"RedLock":       func(opt relock.LockOption) error { return relock.NewRedLock("k", clients, opt).Validate() },
		"Locker":        func(opt relock.LockOption) error { _, err := relock.NewLocker(c, opt); return err },
	}
	options := map[string]relock.LockOption{
		"WithBlock": relock.WithBlock(), "WithBlockTimeout": relock.WithBlockTimeout(time.Second), "WithPollInterval": relock.WithPollInterval(time.Second),
		"WithExpiry": relock.WithExpiry(10 * time.Second), "WithWatchdog": relock.WithWatchdog(10 * time.Second), "WithMaxHold": relock.WithMaxHold(time.Minute),
		"WithMinHold": relock.WithMinHold(time.Second), "WithLabel": relock.WithLabel("l"), "WithFair": relock.WithFair(), "WithFencing": relock.WithFencing(),
		"WithQueueLimit": relock.WithQueueLimit(1), "WithReplicas": relock.WithReplicas(1, time.Second), "WithOwner": relock.WithOwner("me"),
		"WithMaxLease": relock.WithMaxLease(time.Minute),
	}
	require.Len(t, lockspec.OptionNames, len(options))
	text, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	var kinds []string
	for line := range strings.Lines(string(text)) {
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
