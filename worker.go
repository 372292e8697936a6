package relock

import (
	"container/heap"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

// task is something that a worker sends to the server, again and again until it is done.
type task interface {
	// next returns what to send now; false when nothing is to be sent any more.
	next(now time.Time) (scripted, bool)
	// limit is how long an answer may take before another connection has to be tried.
	limit() time.Duration
	// took says what came of it, and returns when to send again; false when the task is done.
	took(o outcome) (again time.Time, ok bool)
}

// job is a task's place in a worker. Its fields belong to the worker.
type job struct {
	task    task
	at      time.Time
	limit   time.Duration // as counted in worker.limits; 0 while it is not
	index   int           // in the heap, -1 while it is not there
	removed bool          // by remove; a job under way is then not put back
}

func newJob(t task) *job { return &job{task: t, index: -1} }

// maxBatch is how many jobs share a pipeline.
const maxBatch = 100

// minLimit keeps a job with a very short limit from cutting the connection under all others.
const minLimit = 100 * time.Millisecond

// worker sends jobs when they are due, in pipelined batches over a connection of its own, so that no caller
// can keep it from doing so. One goroutine, started with the first job.
type worker struct {
	link  link
	tasks *tasks
	done  <-chan struct{} // of the client
	ahead time.Duration   // jobs may go along so much too early

	confirm *confirmation // that all jobs wait for; nil when they wait for none

	mu      sync.Mutex
	jobs    jobHeap
	batch   []*job                // taken out of them to be sent
	limits  map[time.Duration]int // of the jobs that are not done
	started bool
	until   time.Time // when the worker wakes by itself
	wake    chan struct{}

	silent int // pipelines in a row that were not answered in time; of the worker's goroutine
}

func newWorker(d driver, t *tasks, done <-chan struct{}) *worker {
	return &worker{link: d.link(), tasks: t, done: done, limits: map[time.Duration]int{}, wake: make(chan struct{}, 1)}
}

// add puts a job in, or moves it. A removed job stays out.
func (w *worker) add(j *job, at time.Time) { w.plan(j, at, false) }

// sooner is add for a job that may have an earlier time already, which it keeps.
func (w *worker) sooner(j *job, at time.Time) { w.plan(j, at, true) }

func (w *worker) plan(j *job, at time.Time, onlySooner bool) {
	limit := max(j.task.limit(), minLimit)
	w.mu.Lock()
	defer w.mu.Unlock()
	if j.removed || onlySooner && j.index >= 0 && !at.Before(j.at) {
		return
	}
	w.count(j, limit)
	if !w.started {
		w.started = w.tasks.start(w.run)
	}
	w.put(j, at)
	if at.Before(w.until) {
		w.until = at
		w.nudge()
	}
}

func (w *worker) put(j *job, at time.Time) {
	switch j.at = at; {
	case j.removed:
	case j.index >= 0:
		heap.Fix(&w.jobs, j.index)
	default:
		heap.Push(&w.jobs, j)
	}
}

// count enters the job's limit; 0 takes it out.
func (w *worker) count(j *job, limit time.Duration) {
	if limit == j.limit {
		return
	}
	if j.limit > 0 {
		if w.limits[j.limit]--; w.limits[j.limit] == 0 {
			delete(w.limits, j.limit)
		}
	}
	if j.limit = limit; limit > 0 {
		w.limits[limit]++
	}
}

// bounds are the limits of the most impatient job and of the most patient one, due or not: while one connection
// is silent, no other job gets its turn. There are as many different limits as there are different leases in use.
func (w *worker) bounds() (shortest, longest time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for limit := range w.limits {
		if shortest == 0 || limit < shortest {
			shortest = limit
		}
		longest = max(longest, limit)
	}
	return shortest, longest
}

// remove takes a job out for good. What it has under way may still be executed; its answer is not looked at
// any more.
func (w *worker) remove(j *job) {
	w.mu.Lock()
	defer w.mu.Unlock()
	j.removed = true
	w.count(j, 0)
	if j.index >= 0 {
		heap.Remove(&w.jobs, j.index)
	}
}

// drop takes a job out unless it is under way; then its task sees the answer, and has to end it.
func (w *worker) drop(j *job) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if j.index >= 0 {
		heap.Remove(&w.jobs, j.index)
		w.count(j, 0)
	}
}

func (w *worker) nudge() {
	select {
	case w.wake <- struct{}{}:
	default: // it is awake already
	}
}

// pending returns the tasks that are left, but those that are under way.
func (w *worker) pending() []task {
	w.mu.Lock()
	defer w.mu.Unlock()
	var left []task
	for _, j := range w.jobs {
		left = append(left, j.task)
	}
	return left
}

// unfinished returns the tasks that are left, with those that are under way.
func (w *worker) unfinished() []task {
	w.mu.Lock()
	defer w.mu.Unlock()
	var left []task
	for _, j := range w.jobs {
		left = append(left, j.task)
	}
	for _, j := range w.batch {
		if j.index < 0 && j.limit > 0 { // neither put back nor done
			left = append(left, j.task)
		}
	}
	return left
}

func (w *worker) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		batch, pause := w.due(time.Now())
		if len(batch) > 0 {
			w.send(batch)
			continue
		}
		timer.Reset(pause)
		select {
		case <-timer.C:
		case <-w.wake:
		case <-w.done:
			return
		}
	}
}

// due takes out the jobs whose time has come, and those that come soon after one, or says how long that will be.
func (w *worker) due(now time.Time) (batch []*job, pause time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.done:
		return nil, time.Hour
	default:
	}
	until := now
	for len(w.jobs) > 0 && len(batch) < maxBatch && !w.jobs[0].at.After(until) {
		batch = append(batch, heap.Pop(&w.jobs).(*job))
		until = now.Add(w.ahead)
	}
	w.batch = batch
	w.until = w.wakeAt(now)
	return batch, w.until.Sub(now)
}

// wakeAt is when to look again. A wake-up that is planned already stays, though its job may have gone: locks
// that are held for a moment then cost one wake-up now and then, not one each.
func (w *worker) wakeAt(now time.Time) time.Time {
	next := now.Add(time.Hour)
	if len(w.jobs) > 0 {
		next = w.jobs[0].at
	}
	if w.until.After(now) && w.until.Before(next) {
		return w.until
	}
	return next
}

func (w *worker) send(batch []*job) {
	now := time.Now()
	var sending []*job
	var requests []scripted
	for _, j := range batch {
		s, ok := j.task.next(now)
		if !ok {
			w.finish(j)
			continue
		}
		sending, requests = append(sending, j), append(requests, s)
	}
	outcomes := exchange(w.link, w.patience(), requests, w.confirm)
	w.confirm.confirmed(outcomes)
	w.silent = timeouts(w.silent, outcomes)
	for i, o := range outcomes {
		w.answered(sending[i], o)
	}
}

// patience is the shortest limit, doubled for each pipeline in a row that was cut by it, up to the longest: a
// server that is too slow for one short lease is not too slow for all others.
func (w *worker) patience() time.Duration {
	shortest, longest := w.bounds()
	return min(shortest<<min(w.silent, 10), longest)
}

// timeouts counts the pipelines in a row that were not answered in time.
func timeouts(before int, outcomes []outcome) int {
	for _, o := range outcomes {
		if o.unanswered() && !o.broke() {
			return before + 1
		}
	}
	return 0
}

func (w *worker) answered(j *job, o outcome) {
	w.mu.Lock()
	removed := j.removed
	w.mu.Unlock()
	if removed {
		return
	}
	again, ok := j.task.took(o)
	if !ok {
		w.finish(j)
		return
	}
	limit := max(j.task.limit(), minLimit) // may have changed
	w.mu.Lock()
	defer w.mu.Unlock()
	if j.removed {
		return
	}
	w.count(j, limit)
	if j.index < 0 || again.Before(j.at) {
		w.put(j, again)
	}
}

// finish forgets a job that is done, unless it was added again meanwhile.
func (w *worker) finish(j *job) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if j.index < 0 {
		w.count(j, 0)
	}
}

// exchange runs scripts over a link: by digest, and otherwise where the server refuses that.
func exchange(l link, limit time.Duration, scripts []scripted, confirm *confirmation) []outcome {
	if len(scripts) == 0 {
		return nil
	}
	requests := make([]request, len(scripts))
	for i, s := range scripts {
		requests[i] = s.bySHA()
	}
	outcomes := pipelineConfirmed(l, limit, requests, confirm)
	var again []int
	requests = requests[:0]
	for i, o := range outcomes {
		if next, ok := scripts[i].after(o.err); ok {
			again, requests = append(again, i), append(requests, next)
		}
	}
	if len(again) > 0 {
		for k, o := range pipelineConfirmed(l, limit, requests, confirm) {
			outcomes[again[k]] = o
		}
	}
	return outcomes
}

// pipelineConfirmed asks behind the requests how many replicas have them.
func pipelineConfirmed(l link, limit time.Duration, requests []request, confirm *confirmation) []outcome {
	if confirm == nil {
		return l.pipeline(limit, requests)
	}
	outcomes := l.pipeline(limit, append(requests, confirm.request()))
	last := len(outcomes) - 1
	acks, err := redis.Int64(outcomes[last].reply, outcomes[last].err)
	for i := range outcomes {
		outcomes[i].acks, outcomes[i].unacked = acks, err
	}
	return outcomes[:last]
}

// jobHeap orders jobs by their time.
type jobHeap []*job

func (h jobHeap) Len() int           { return len(h) }
func (h jobHeap) Less(a, b int) bool { return h[a].at.Before(h[b].at) }
func (h jobHeap) Swap(a, b int) {
	h[a], h[b] = h[b], h[a]
	h[a].index, h[b].index = a, b
}

func (h *jobHeap) Push(x any) {
	j := x.(*job)
	j.index = len(*h)
	*h = append(*h, j)
}

func (h *jobHeap) Pop() any {
	old := *h
	j := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	j.index = -1
	return j
}
