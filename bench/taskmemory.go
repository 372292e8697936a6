package main

import (
	"context"
	"strconv"
)

// taskMemory is what the server needs for queued tasks of 100 bytes.
var taskMemory = scenario{
	name: "memory", libraries: bothQueues, needs: []string{bytesPerTask},
	load: load{Tasks: 100_000}, tasks: measureMemory,
}

const bytesPerTask = "bytes a task"

func measureMemory(r taskRun) (figures, error) {
	q, err := r.open()
	if err != nil {
		return nil, err
	}
	defer q.close() //nolint:errcheck // the enqueues' errors count
	// The first tasks bring connections and scripts.
	if err := fill(context.Background(), q, 100); err != nil {
		return nil, err
	}
	before, err := r.srv.memory()
	if err != nil {
		return nil, err
	}
	if err := fill(context.Background(), q, r.Tasks); err != nil {
		return nil, err
	}
	after, err := r.srv.memory()
	return figures{}.add(bytesPerTask, (after-before)/float64(r.Tasks)), err
}

// memory returns the memory that the server uses, but not for its clients.
func (s *server) memory() (float64, error) {
	var sizes [2]float64
	for i, field := range []string{"used_memory", "mem_clients_normal"} {
		text, err := s.info("memory", field)
		if err != nil {
			return 0, err
		}
		if sizes[i], err = strconv.ParseFloat(text, 64); err != nil {
			return 0, err
		}
	}
	return sizes[0] - sizes[1], nil
}
