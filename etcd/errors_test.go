package etcdlock

import (
	"context"
	"errors"
	"net"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/relock-go/relock"
)

// For each error of the client: whether the call is retryable, what it is
// reported as, and whether the request may have been executed.
func TestExplain(t *testing.T) {
	tests := map[string]struct {
		err        error
		is         error
		retry      bool
		unanswered bool
	}{
		"no leader":             {rpctypes.ErrNoLeader, nil, true, true},
		"leader changed":        {rpctypes.ErrLeaderChanged, nil, true, true},
		"timeout of the server": {rpctypes.ErrTimeout, nil, true, true},
		"lost connection":       {rpctypes.ErrTimeoutDueToConnectionLost, nil, true, true},
		"server stopped":        {rpctypes.ErrStopped, nil, true, true},
		"no space":              {rpctypes.ErrNoSpace, nil, true, false},
		"too many requests":     {rpctypes.ErrTooManyRequests, nil, true, false},
		"old revision of auth":  {rpctypes.ErrAuthOldRevision, nil, true, false},
		"permission":            {rpctypes.ErrPermissionDenied, relock.ErrDenied, false, false},
		"invalid token":         {rpctypes.ErrInvalidAuthToken, relock.ErrDenied, false, false},
		"wrong password":        {rpctypes.ErrAuthFailed, relock.ErrDenied, false, false},
		"no user":               {rpctypes.ErrUserEmpty, relock.ErrDenied, false, false},
		"compacted":             {rpctypes.ErrCompacted, rpctypes.ErrCompacted, false, false},
		"corrupt":               {rpctypes.ErrCorrupt, rpctypes.ErrCorrupt, false, true},
		"connection refused":    {status.Error(codes.Unavailable, "connection refused"), nil, true, true},
		"stream reset":          {status.Error(codes.Internal, "stream terminated by RST_STREAM"), nil, true, true},
		"stream calmed down": {
			status.Error(codes.ResourceExhausted, "stream terminated by RST_STREAM with error code: ENHANCE_YOUR_CALM"),
			nil, true, true,
		},
		"stream refused": {
			status.Error(codes.PermissionDenied, "stream terminated by RST_STREAM with error code: INADEQUATE_SECURITY"),
			relock.ErrDenied, false, true,
		},
		"refused by a gateway": {status.Error(codes.PermissionDenied, "no"), relock.ErrDenied, false, false},
		"too large an answer": {
			status.Error(codes.ResourceExhausted, "grpc: received message larger than max"), nil, true, true,
		},
		"etcd's own, not decoded": {rpctypes.ErrGRPCPermissionDenied, relock.ErrDenied, false, false},
		"proposal dropped":        {status.Error(codes.Unknown, "raft proposal dropped"), nil, true, true},
		"a member that stops":     {status.Error(codes.Unknown, "raft: stopped"), nil, true, true},
		"no longer the leader":    {status.Error(codes.Unknown, "not a primary lessor"), nil, true, true},
		"stream cancelled": {
			status.Error(codes.Canceled, "stream terminated by RST_STREAM with error code: CANCEL"), nil, true, true,
		},
		"our own limit": {context.DeadlineExceeded, nil, true, true},
		"our own end":   {context.Canceled, nil, true, true},
		"the client was closed": {
			status.Error(codes.Canceled, "grpc: the client connection is closing"), relock.ErrClosed, false, true,
		},
		"something else entirely": {errors.New("what"), nil, false, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := explain(tt.err)
			if tt.is != nil && !errors.Is(err, tt.is) {
				t.Errorf("%v is not %v", err, tt.is)
			}
			if got := relock.IsRetryableErr(wrap("lock", "key", err)); got != tt.retry {
				t.Errorf("retryable: %v", got)
			}
			if got := unanswered(tt.err); got != tt.unanswered {
				t.Errorf("unanswered: %v", got)
			}
			if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
				t.Error("the error equals the end of the caller's context")
			}
		})
	}
	var network net.Error
	if !errors.As(explain(rpctypes.ErrNoLeader), &network) || network.Timeout() {
		t.Error("is no error of a network")
	}
	if !perhapsExecuted(rpctypes.ErrNoSpace) || perhapsExecuted(rpctypes.ErrTooManyRequests) ||
		!perhapsExecuted(rpctypes.ErrTimeout) || perhapsExecuted(nil) {
		t.Error("of those that are over, the one that had no space left may have been executed")
	}
	for _, stale := range []error{
		rpctypes.ErrInvalidAuthToken, rpctypes.ErrGRPCInvalidAuthToken, rpctypes.ErrAuthOldRevision,
		rpctypes.ErrGRPCUserEmpty,
		errors.New(rpctypes.ErrGRPCInvalidAuthToken.Error()), // as a watch says it
	} {
		if !isStaleToken(stale) {
			t.Errorf("another stream would have another token: %v", stale)
		}
	}
	if isStaleToken(nil) || isStaleToken(rpctypes.ErrPermissionDenied) || isStaleToken(rpctypes.ErrNoLeader) {
		t.Error("another stream does not help")
	}
	if explain(nil) != nil || unanswered(nil) {
		t.Error("nil is no error")
	}
	if !relock.IsRetryableErr(ErrPlaceLost) {
		t.Error("a lost queue entry must be retryable")
	}
}

func TestIsOld(t *testing.T) {
	for version, old := range map[string]bool{
		"3.4.33": true, "3.5.12": true, "3.5.13": false, "3.5.21": false, "3.6.0": false, "3.7.3": false, "2.3.8": true,
		"4.0.0": false, "": false, "what": false, "3.6.0-rc.1": false,
	} {
		if isOld(version) != old {
			t.Errorf("%q: %v", version, !old)
		}
	}
}

func TestValueNamesItsHold(t *testing.T) {
	if got := holdOf([]byte((&keys{process: process()}).value("name-1"))); got != "name-1" {
		t.Errorf("hold is %q", got)
	}
	for _, other := range []string{"", "x", "relock/1", "relock/1|x", "relock/2|x|y"} {
		if got := holdOf([]byte(other)); got != "" {
			t.Errorf("hold of %q is %q", other, got)
		}
	}
}
