package background

import (
	"context"
	"io"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/redis/routes"
	"github.com/relock-go/relock/internal/script"
)

// Each answer that was missed doubles the time for the next, from the shortest
// limit to the longest one, and to no more: leases may be years.
func TestPatienceOfAWorker(t *testing.T) {
	t.Parallel()
	const day, years = 24 * time.Hour, 10 * 365 * 24 * time.Hour
	for _, tt := range []struct {
		limits []time.Duration
		missed []int16
		want   time.Duration
	}{
		{[]time.Duration{time.Second, time.Minute}, []int16{0, 0}, time.Second},
		{[]time.Duration{time.Second, time.Minute}, []int16{0, 3}, 8 * time.Second},
		{[]time.Duration{time.Second, time.Minute}, []int16{20, 3}, time.Minute},
		{[]time.Duration{day, years}, []int16{12}, years},
		{[]time.Duration{years}, []int16{10}, years},
		{nil, []int16{1}, 0},
	} {
		w, batch := &Worker{fleet: &Fleet{}, limits: map[time.Duration]int{}}, []*Job{}
		for _, limit := range tt.limits {
			w.limits[limit]++
		}
		for _, n := range tt.missed {
			batch = append(batch, &Job{missed: n})
		}
		require.Equal(t, tt.want, w.patience(missedBy(batch)), tt)
	}
}

// Connections that take too long count as answers that do: a connection that
// takes longer than a short lease gives is not too slow for others. Having no
// master to send to shows nothing about a connection.
func TestJobCountsWhatIsLate(t *testing.T) {
	t.Parallel()
	now := time.Now()
	r := routes.NewRouter(&driver.Config{},
		&driver.Topology{Master: func(context.Context, string) (string, error) { return "", driver.ErrTimeout }})
	for name, tt := range map[string]struct {
		outcome driver.Result
		missed  int16
	}{
		"no master":     {r.Call(t.Context(), driver.Limits{}, driver.Request{Cmd: "PING"}), 0},
		"not answered":  {driver.Result{Sent: now, Err: driver.ErrTimeout}, 2},
		"not connected": {driver.Result{Err: driver.ErrTimeout}, 2},
		"refused":       {driver.Result{Err: syscall.ECONNREFUSED}, 0},
		"cut":           {driver.Result{Sent: now, Err: io.EOF}, 0},
		"answered":      {driver.Result{Sent: now, Answered: true}, 0},
	} {
		j := &Job{missed: 1}
		j.countLate(tt.outcome)
		require.Equal(t, tt.missed, j.missed, name)
	}
	require.NoError(t, r.Close())
}

// What is due soon goes along with what is due now; alone it waits for its
// time.
func TestWorkerTakesAlongWhatIsDueSoon(t *testing.T) {
	t.Parallel()
	w := &Worker{fleet: &Fleet{Window: 10 * time.Millisecond, life: t.Context()}, limits: map[time.Duration]int{}}
	now := time.Now()
	for _, in := range []time.Duration{0, 3, 9, 11, 40} {
		w.put(NewJob(nil), now.Add(in*time.Millisecond))
	}
	batch, pause := w.due(now)
	require.Len(t, batch, 3)
	require.Equal(t, 11*time.Millisecond, pause)
	batch, pause = w.due(now.Add(5 * time.Millisecond))
	require.Empty(t, batch)
	require.Equal(t, 6*time.Millisecond, pause)
}

// Jobs that are under way when all become due are sent again immediately,
// unless they were answered.
func TestRunNowWhileABatchIsUnderWay(t *testing.T) {
	t.Parallel()
	cut, answered := driver.Result{Err: io.EOF}, driver.Result{Answered: true, Reply: int64(script.NotHeld)}
	for _, tt := range []struct {
		result driver.Result
		due    bool
	}{{cut, true}, {answered, false}} {
		now := time.Now()
		w := &Worker{fleet: &Fleet{life: t.Context()}, limits: map[time.Duration]int{}, wake: make(chan struct{}, 1)}
		w.fleet.workers = map[driver.Node]*Worker{nil: w}
		late := NewRelease("k", time.Hour, time.Hour, script.Indeterminate{Last: now}, nil)
		late.gap = maxPause
		w.put(NewJob(late), now)
		batch, _ := w.due(now)
		require.Len(t, batch, 1)
		w.fleet.RunNow()
		tt.result.Sent = now
		w.answered(batch[0], tt.result)
		batch, _ = w.due(now.Add(maxPause / 2))
		require.Equal(t, tt.due, len(batch) == 1, tt.result)
		require.False(t, w.runNow, "only once")
	}
}
