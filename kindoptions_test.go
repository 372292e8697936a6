package relock

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redistest"
)

// The table of options and kinds in the package's documentation is what the kinds honour.
func TestTableOfOptions(t *testing.T) {
	c := newTestClient(t, redistest.Shared(t))
	clients := []*Client{c, newTestClient(t, redistest.Shared(t)), newTestClient(t, redistest.Shared(t))}
	validate := map[string]func(opt LockOption) error{
		"RedisLock":     func(opt LockOption) error { return NewRedisLock("k", c, opt).Validate() },
		"ReentrantLock": func(opt LockOption) error { return NewReentrantLock("k", c, opt).Validate() },
		"RWLock":        func(opt LockOption) error { return NewRWLock("k", c, opt).Validate() },
		"MultiLock":     func(opt LockOption) error { return NewMultiLock([]string{"k"}, c, opt).Validate() },
		"RedLock":       func(opt LockOption) error { return NewRedLock("k", clients, opt).Validate() },
		"Locker":        func(opt LockOption) error { _, err := NewLocker(c, opt); return err },
	}
	options := map[string]LockOption{
		"WithBlock": WithBlock(), "WithBlockTimeout": WithBlockTimeout(time.Second), "WithPollInterval": WithPollInterval(time.Second),
		"WithExpiry": WithExpiry(10 * time.Second), "WithWatchdog": WithWatchdog(10 * time.Second), "WithMaxHold": WithMaxHold(time.Minute),
		"WithMinHold": WithMinHold(time.Second), "WithLabel": WithLabel("l"), "WithFair": WithFair(), "WithFencing": WithFencing(),
		"WithQueueLimit": WithQueueLimit(1), "WithReplicas": WithReplicas(1, time.Second),
		"WithMaxLease": WithMaxLease(time.Minute),
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
