package script_test

import (
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
)

// answers is a link that answers each batch of one request with the next of
// these.
type answers struct {
	driver.Link
	next []driver.Result
}

func (a *answers) Pipeline(driver.BatchLimit, []driver.Request) []driver.Result {
	first := a.next[0]
	a.next = a.next[1:]
	return []driver.Result{first}
}

// A copy of a script that was not known may come when it is: it counts though
// the script was sent again by its source.
func TestCopyOfAnUnknownScriptCounts(t *testing.T) {
	sent := time.Now()
	link := &answers{next: []driver.Result{
		{Err: redis.Error("NOSCRIPT No matching script."), Sent: sent, Answered: true, Resent: true},
		{Reply: int64(1), Sent: sent, Answered: true},
	}}
	calls := []script.Call{{Script: script.Release, Key: "k", Args: []any{"hold"}}}
	outcomes := script.RunBatch(link, driver.BatchLimit{}, calls, nil)
	require.Empty(t, link.next)
	require.NoError(t, outcomes[0].Err)
	require.True(t, outcomes[0].Resent)
}

// The newest copy of a request may have been sent after the one that was
// answered. What it leaves is cleaned up for as long.
func TestNewestCopyCounts(t *testing.T) {
	o := driver.Result{Reply: int64(1), Sent: time.Now().Add(-time.Second), Answered: true, Resent: true}
	handled := time.Now()
	require.False(t, script.Indeterminate{}.Add(o).Last.Before(handled))
}
