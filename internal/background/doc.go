// Package background owns what is sent on no caller's behalf: jobs that are
// due at a time, and releases that are sent again until they are certain.
//
// A [Worker] sends the jobs that are due, in batches over its own connection.
// Its one goroutine starts with the first job, belongs to the client's group,
// and ends when the client is closed. A [Retrier] is a worker for releases.
//
// A task is called without a lock of the worker held, on the worker's
// goroutine, and must not block. The worker's mutex is held alone.
package background
