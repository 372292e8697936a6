// Command relock runs commands under a lock on Redis. Its other commands show
// locks and queues, end a hold, and check the server.
//
//	relock run [flags] KEY [--] COMMAND [ARG...]
//	relock ls [flags] [PATTERN]
//	relock inspect [flags] KEY
//	relock release --force --reason TEXT [flags] KEY
//	relock queue ls|stats|tasks|dead|paused [flags] [NAME] [ID...]
//	relock queue requeue|remove|pause|resume [flags] NAME [ID...|KEY]
//	relock doctor [flags]
//
// relock run acquires the lock, runs the command, and releases the lock. The
// command is ended before the lease ends, also if relock is killed or stopped.
// The flags are those of relock run --help. docs/cli.md has the exit codes, and
// recipes for cron and systemd.
package main

import (
	"os"

	"github.com/relock-go/relock/cmd/relock/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:])) }
