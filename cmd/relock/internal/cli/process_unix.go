//go:build linux || darwin

package cli

import (
	"errors"
	"os"
	"os/signal"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// status is how a process has ended.
type status = unix.WaitStatus

// passed are the signals that relock passes on to the command.
var passed = []os.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2}

// endured are signals that would stop a process, or end it because nobody reads
// what it says.
var endured = []os.Signal{unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGPIPE}

// catch returns a channel for signals. One that was ignored from the start
// stays so, also for the command, as nohup(1) wants it.
func catch(signals ...os.Signal) chan os.Signal {
	c := make(chan os.Signal, 16)
	signals = slices.DeleteFunc(slices.Clone(signals), signal.Ignored)
	if len(signals) > 0 { // none would mean all
		signal.Notify(c, signals...)
	}
	return c
}

// endure keeps signals from ending or stopping the guard. For the command they
// are as before.
func endure() { catch(slices.Concat(passed, endured)...) }

// send sends a signal to a process, or to a group by its negative number. It
// does nothing before the start of the command, which is 0. That a process has
// ended, or is not ours to end, changes nothing.
func send(target int, sig unix.Signal) {
	if target > 1 || target < -1 {
		_ = unix.Kill(target, sig)
	}
}

// reap waits until no child is left of a process or of a group. It returns the
// status of the leader, which is s if it was reaped before.
func reap(target, leader int, s status) status {
	for {
		var one status
		pid, err := unix.Wait4(target, &one, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return s
		case pid == leader:
			s = one
		}
	}
}

// withEnv returns an environment in which the variable of each pair has one
// value. One that is named without a value is not in it.
func withEnv(env []string, pairs ...string) []string {
	env = slices.Clone(env)
	for _, pair := range pairs {
		name, _, has := strings.Cut(pair, "=")
		env = slices.DeleteFunc(env, func(entry string) bool { return strings.HasPrefix(entry, name+"=") })
		if has {
			env = append(env, pair)
		}
	}
	return env
}
