package main

import (
	"context"
	"errors"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/examples/internal/runs"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/queue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Only what was committed arrives, and in its order.
func TestOutbox(t *testing.T) {
	t.Parallel()
	runs.OnBoth(t, run, runs.Prints(`order 1: <nil>
order 2: rolled back
order 3: <nil>
relayed: <nil>
mail for order 1
mail for order 3
`))
}

// Three replicas relay 200 orders while they are written, and each row is
// enqueued once more by a relay that died before it deleted the row. Each task
// runs once, in the order of the rows.
func TestEachOrderOnce(t *testing.T) {
	t.Parallel()
	const orders = 200
	server := redistest.Start(t)
	db, err := open(t.Context(), filepath.Join(t.TempDir(), "shop.db"))
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var replicas sync.WaitGroup
	defer replicas.Wait()
	defer stop()
	replica := func() *queue.Queue {
		client, err := relock.NewClient(server.Network, server.Address, "")
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, client.Close()) })
		mails, err := queue.New("mails", client, queue.WithUnique(time.Hour))
		require.NoError(t, err)
		replicas.Go(func() {
			for ctx.Err() == nil {
				if batch, err := read(ctx, db); err == nil {
					_, _ = mails.Enqueue(ctx, batch...) // and dies
				}
				if err := relay(ctx, db, client, mails); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			}
		})
		return mails
	}
	mails := replica()
	replica()
	replica()
	replicas.Go(func() {
		for id := range orders {
			if err := order(t.Context(), db, 2*id, nil); err != nil {
				t.Error(err)
			}
			if err := order(t.Context(), db, 2*id+1, errBack); !errors.Is(err, errBack) {
				t.Error(err)
			}
		}
	})
	var ran []string
	require.NoError(t, mails.Process(ctx, func(_ context.Context, d *queue.Delivery) error {
		if ran = append(ran, string(d.Payload)); len(ran) == orders {
			stop()
		}
		return nil
	}, queue.WithWorkers(1)))
	require.Len(t, ran, orders)
	for i, payload := range ran {
		require.Equal(t, strconv.Itoa(2*i), payload)
	}
}

var errBack = errors.New("rolled back")
