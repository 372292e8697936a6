// Package testkit has what tests of several packages share: waits with a limit,
// bounds on time that hold on a busy machine, bubbles of time, logs, and the
// code in Markdown files. It knows nothing of Redis.
package testkit
