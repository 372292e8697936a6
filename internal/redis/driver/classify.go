package driver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/relock-go/relock/internal/errs"
)

// DENIED is that of the protected mode.
var deniedCodes = []string{"NOAUTH", "WRONGPASS", "NOPERM", "DENIED"}

// Code returns the first word of a server's error line.
func Code(line redis.Error) string {
	word, _, _ := strings.Cut(inner(line), " ")
	return word
}

// inner returns the error of a command in a script, or else the line. Before
// Redis 7.0, that error follows the name of the script and a line number.
func inner(line redis.Error) string {
	text := string(line)
	const where = "@user_script:" // once or twice, each with a line number
	raised, caught := strings.HasPrefix(text, "ERR Error running script"), strings.HasPrefix(text, where)
	if i := strings.LastIndex(text, where); i >= 0 && (raised || caught) {
		_, text, _ = strings.Cut(text[i+len(where):], ": ")
		text = strings.TrimPrefix(text, "-")
	}
	return text
}

// HasCode reports whether a server has answered with an error line that has one
// of these codes.
func HasCode(err error, codes ...string) bool {
	line, ok := ErrorLine(err)
	return ok && slices.Contains(codes, Code(line))
}

// IsNetwork reports whether the network has failed, or an answer is late.
func IsNetwork(err error) bool {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, os.ErrDeadlineExceeded) {
		return true
	}
	if _, ok := alertIn(err); ok {
		return false
	}
	var network net.Error
	return errors.As(err, &network)
}

// IsFull reports whether the server has no free connection. The line continues
// with "reached", or in a cluster with "+ cluster connections reached".
func IsFull(line redis.Error) bool {
	return strings.HasPrefix(string(line), "ERR max number of clients ")
}

// isDenied reports whether the server refuses this user.
func isDenied(line redis.Error) bool {
	text := string(line)
	return slices.Contains(deniedCodes, Code(line)) ||
		strings.Contains(text, "The user executing the script can't") || // Redis 6.2 and 7.0
		strings.HasPrefix(text, "ERR ACL failure in script: ") || // since Redis 7.2
		strings.HasPrefix(text, "ERR invalid password") ||
		strings.HasPrefix(text, "ERR Client sent AUTH") ||
		strings.HasPrefix(text, "ERR AUTH <password> called") ||
		strings.HasPrefix(text, "ERR Protocol error: unauthenticated") // a long request before AUTH
}

// IsForbidden reports whether the user is logged in and lacks a permission.
func IsForbidden(err error) bool { return HasCode(err, "NOPERM") }

// IsReadOnly reports whether the connection leads to a replica. After a
// failover behind one address, another connection may lead to the master.
func IsReadOnly(err error) bool { return HasCode(err, "READONLY") }

// IsCrossSlot reports whether a Cluster has refused keys of several slots
// together.
func IsCrossSlot(err error) bool { return HasCode(err, "CROSSSLOT") }

// refusedCodes begin the lines of a Cluster that come before anything is
// executed. Inside a script, Redis words them differently.
var refusedCodes = []string{"MOVED", "ASK", "CROSSSLOT", "CLUSTERDOWN", "TRYAGAIN"}

// IsUnexecuted reports whether the server has answered that nothing was
// executed: a replica executes no write, and a Cluster refuses a request whose
// keys the server may not use.
func IsUnexecuted(err error) bool {
	line, ok := ErrorLine(err)
	if !ok {
		return false
	}
	word, _, _ := strings.Cut(string(line), " ")
	return slices.Contains(refusedCodes, word) || IsReadOnly(err)
}

// IsHalfMoved reports whether a Cluster has refused several keys together,
// because it is moving their slot. Some keys are still at the server.
func IsHalfMoved(err error) bool { return HasCode(err, "TRYAGAIN") }

// AreKeysRefused reports whether a script was refused because of its keys. A
// Cluster is moving their slot, or the user may use only some of them. The
// texts are those of Redis 6.2 and 7.0, and those of 7.2 and newer. A refused
// command in a script has other texts.
func AreKeysRefused(err error) bool {
	line, ok := ErrorLine(err)
	return ok && (IsHalfMoved(err) ||
		isDenied(line) && strings.Contains(string(line), "the keys used as arguments") ||
		strings.HasPrefix(string(line), "NOPERM No permissions to access a key"))
}

// isTorn reports whether a script ended in the middle. While a Cluster moves a
// slot, its old server refuses commands for keys that it lacks, also for one
// that the script itself has deleted.
func isTorn(line redis.Error) bool {
	return strings.Contains(string(line), "cript attempted to access a non local key in a cluster node")
}

// IsNoScript reports whether the server does not know the script by its digest.
func IsNoScript(err error) bool { return HasCode(err, "NOSCRIPT") }

// IsUnknownCommand reports whether the server does not have a command.
func IsUnknownCommand(err error) bool {
	line, ok := ErrorLine(err)
	return ok && strings.HasPrefix(string(line), "ERR unknown command")
}

// ErrTimeout is the error of the client's own time limits. It does not look
// like the end of the caller's context.
var ErrTimeout = fmt.Errorf("no answer from the server in time: %w", os.ErrDeadlineExceeded)

// Sanitize turns an error of redigo into one that may be shown. It has no
// argument of a command, and no context error that is not the caller's. It
// wraps the reason that it stands for.
func Sanitize(err error) error {
	var line redis.Error
	if errors.As(err, &line) {
		return explainLine(line)
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return ErrTimeout
	}
	return err
}

// explainLine removes the arguments that "unknown command" repeats. A token or
// a password may be among them. A router follows a redirect in place of its
// explanation.
func explainLine(line redis.Error) error {
	text, _, _ := strings.Cut(string(line), ", with args beginning with")
	shown := shownLine(redis.Error(text))
	if isDenied(line) {
		return errs.Join(errs.ErrDenied, shown)
	}
	if _, ok := readRedirect(text); ok {
		return errs.Join(errInCluster, shown)
	}
	return shown
}

// longLine is an error line of which only the beginning is shown. It wraps the
// whole line, which decides its class.
type longLine struct{ line redis.Error }

// maxShown is how many bytes of an error line are shown.
const maxShown = 200

// shownLine returns the error of a line, of which at most maxShown bytes are
// shown.
func shownLine(line redis.Error) error {
	if len(line) <= maxShown {
		return line
	}
	return longLine{line}
}

func (l longLine) Error() string {
	return strings.ToValidUTF8(string(l.line[:maxShown]), "") + "..."
}

// Unwrap returns the whole line.
func (l longLine) Unwrap() error { return l.line }

// IsRefusal reports whether the server takes no requests from the connection.
// The server sends such a line unasked, and then closes the connection.
func IsRefusal(err error) bool {
	line, ok := ErrorLine(err)
	return ok && (Code(line) == "DENIED" || IsFull(line))
}
