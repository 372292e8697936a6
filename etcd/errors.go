package etcdlock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/relock-go/relock"
)

// ErrPlaceLost reports that a fair Lock has lost its place in the queue: its
// lease has ended, or somebody has deleted its key. The error matches
// [relock.ErrLockAcquiredByOthers] too: another call may get the lock, from the
// end of the queue.
var ErrPlaceLost = fmt.Errorf("place in the queue is gone: %w", relock.ErrLockAcquiredByOthers)

var (
	errNotMade    = fmt.Errorf("%w: locker: was not made by NewLocker", relock.ErrInvalid)
	errNilContext = fmt.Errorf("%w: context: is nil", relock.ErrInvalid)

	// What a key is that is not a lock of the requested mode.
	errIsUnfair = fmt.Errorf("%w: held as an unfair lock, requested as fair", relock.ErrKeyConflict)
	errIsFair   = fmt.Errorf("%w: held as a fair lock, requested as unfair", relock.ErrKeyConflict)
	errForeign  = fmt.Errorf("%w: used by another program", relock.ErrKeyConflict)

	// errLeft is the error of a call whose caller left because its context was
	// cancelled.
	errLeft = errors.New("caller left")

	// errTimeout is the error of a time limit of the Locker. It must not look
	// like the end of the caller's context.
	errTimeout = fmt.Errorf("no answer from the server in time: %w", os.ErrDeadlineExceeded)

	// errLate is the error of an acquire that was granted after its lease had
	// ended.
	errLate = fmt.Errorf("granted after the lease had expired: %w", errTimeout)

	// errSession is the error of a claim whose session has ended. An earlier
	// reason says more.
	errSession = fmt.Errorf("lease has ended: %w", errTimeout)

	// errLateCopy is the error of a claim whose key already exists.
	errLateCopy = passing{errors.New("a late request has made a key")}

	// errBehind is the error for a member that does not know yet of the claim,
	// or of what a watch has reported.
	errBehind = passing{errors.New("this member lags behind")}

	// errGone is the error of a rewrite whose key somebody has deleted or
	// changed.
	errGone = errors.New("key is gone")

	// errClientClosed is why a Locker is closed if its client was closed.
	errClientClosed = fmt.Errorf("%w: the etcd client was closed", relock.ErrClosed)
)

// wrap adds the operation and the key to err. It returns nil for nil.
func wrap(op, key string, err error) error {
	if err == nil {
		return nil
	}
	return &relock.Error{Op: op, Key: key, Err: err}
}

// passing is a temporary failure. It is a [net.Error], as a failure of the
// network would be.
type passing struct{ err error }

func (p passing) Error() string   { return p.err.Error() }
func (p passing) Unwrap() error   { return p.err }
func (p passing) Timeout() bool   { return false }
func (p passing) Temporary() bool { return true }

// explain converts an error of the client into one of relock.
func explain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return errTimeout // the context was one of ours
	case isDenied(err):
		return fmt.Errorf("%w: %w", relock.ErrDenied, err)
	case errors.Is(err, rpctypes.ErrAuthOldRevision):
		return passing{err}
	}
	switch codeOf(err) {
	case codes.Unavailable, codes.ResourceExhausted, codes.DeadlineExceeded, codes.Aborted, codes.Internal:
		return passing{err}
	case codes.Canceled:
		if mentions(err, "RST_STREAM") {
			return passing{err} // an intermediary has ended its stream
		}
		return fmt.Errorf("%w: %w", relock.ErrClosed, err) // the caller's client is closed
	}
	if isPassing(err) {
		return passing{err}
	}
	return err
}

// isPassing reports whether a member accepted nothing because it was stopping,
// was handing over, or was no longer the leader. etcd has no code for these
// errors.
func isPassing(err error) bool {
	return mentions(err, "raft proposal dropped", "raft: stopped", "not a primary lessor")
}

// mentions reports whether the text of err contains one of texts.
func mentions(err error, texts ...string) bool {
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(err.Error(), text) })
}

func isDenied(err error) bool {
	code := codeOf(err)
	return code == codes.PermissionDenied || code == codes.Unauthenticated || errors.Is(err, rpctypes.ErrAuthFailed) ||
		errors.Is(err, rpctypes.ErrUserEmpty) || errors.Is(err, rpctypes.ErrUserNotFound)
}

func isNoLease(err error) bool { return errors.Is(rpctypes.Error(err), rpctypes.ErrLeaseNotFound) }

func codeOf(err error) codes.Code {
	if e, ok := etcdError(err); ok {
		return e.Code()
	}
	return status.Code(err)
}

// etcdError returns the error of etcd itself, and reports whether err is one.
// It may come from the connection or from an intermediary.
func etcdError(err error) (e rpctypes.EtcdError, ok bool) {
	ok = errors.As(err, &e) || errors.As(rpctypes.Error(err), &e)
	return e, ok
}

// unanswered reports whether a request that failed with err may have been
// executed, or may be executed later. A reset stream has the code of a server
// that refuses, but the reset may follow the execution. The same is true of an
// answer that is too large.
func unanswered(err error) bool {
	if err == nil {
		return false
	}
	if _, ok := etcdError(err); !ok && (status.Code(err) == codes.ResourceExhausted || mentions(err, "RST_STREAM")) {
		return true
	}
	switch codeOf(err) {
	case codes.InvalidArgument, codes.NotFound, codes.PermissionDenied, codes.ResourceExhausted, codes.FailedPrecondition,
		codes.OutOfRange, codes.Unimplemented, codes.Unauthenticated:
		return false
	}
	return true
}

// perhapsExecuted reports whether a request that failed with err may have been
// executed. Unlike an unanswered request, it may no longer be under way. etcd
// reports that it has no space left even for the request that has filled it.
func perhapsExecuted(err error) bool { return unanswered(err) || isNoSpace(err) }

// isTooLarge reports whether the server or the client refused a request for its
// size, or perhaps did.
func isTooLarge(err error) bool {
	known := rpctypes.Error(err)
	if errors.Is(known, rpctypes.ErrTooManyOps) || errors.Is(known, rpctypes.ErrRequestTooLarge) {
		return true
	}
	_, ok := etcdError(err)
	return !ok && status.Code(err) == codes.ResourceExhausted
}

func isNoSpace(err error) bool { return errors.Is(rpctypes.Error(err), rpctypes.ErrNoSpace) }

// isStaleToken reports whether the server no longer knows the token with which
// a stream was opened. This includes a stream that was opened without a token,
// before the server required one. A new stream has a new token. The text is
// compared, because a watch that ends has the reason only there.
func isStaleToken(err error) bool {
	return err != nil && mentions(err,
		rpctypes.ErrInvalidAuthToken.Error(), rpctypes.ErrAuthOldRevision.Error(), rpctypes.ErrUserEmpty.Error())
}
