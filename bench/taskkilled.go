package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// killed is a worker that is killed in the middle of a task: how long it takes
// until another worker runs the task again.
var killed = scenario{
	name: "killed", libraries: bothQueues, needs: []string{againAfter}, waits: true,
	load: load{Patience: 4 * time.Minute}, tasks: measureKilled,
}

const againAfter = "again after"

func measureKilled(r taskRun) (figures, error) {
	ctx, cancel := context.WithTimeout(context.Background(), r.Patience)
	defer cancel()
	q, err := r.open()
	if err != nil {
		return nil, err
	}
	defer q.close() //nolint:errcheck // the task's start counts
	if err := q.enqueue(ctx, payloadOf(1), 0); err != nil {
		return nil, err
	}
	l := r.load
	l.Work = workOnTask
	victim, err := startProcess(ctx, l)
	if err != nil {
		return nil, err
	}
	defer victim.stop()
	if line, err := victim.out.ReadString('\n'); err != nil || strings.TrimSpace(line) != startedTask {
		return nil, fmt.Errorf("the worker has not started the task: %q, %w", line, err)
	}
	s := newStarts()
	stop, err := q.process(1, s.note)
	if err != nil {
		return nil, err
	}
	defer stop()                                   //nolint:errcheck // the task's start counts
	time.Sleep(min(2*time.Second, r.Patience/100)) // the other worker is idle, and lets the task be
	victim.stop()
	died := time.Now()
	again, err := s.wait(ctx, 1)
	if err == nil && again.Before(died) {
		err = errors.New("the task ran while its worker lived")
	}
	return figures{}.add(againAfter, again.Sub(died).Seconds()), err
}

// workOnTask is the work of a process that starts a task, and is killed.
const workOnTask = "task"

const startedTask = "started"

// hangInTask runs in the process that is killed. It reports that it is ready,
// and that a task has started, which never ends.
func hangInTask(l load) error {
	q, err := taskQueues[l.Library](l.Address, l.Brief)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	_, err = q.process(1, func([]byte) {
		fmt.Println(startedTask)
		select {}
	})
	if err != nil {
		return err
	}
	select {}
}
