package test

import (
	"context"
	"path"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// faults change the outcome of single requests between a client and a real
// server.
type faults struct {
	mu    sync.Mutex
	rules []*rule
	seen  map[string]int // requests by method: Txn, Range, LeaseGrant, LeaseKeepAlive ...
	late  sync.WaitGroup

	random func(method string) action // of a request that no rule is for; nil for none
}

// action is what becomes of a request.
type action int

const (
	pass           action = iota
	refuse                // it does not reach the server; the client gets an error
	dropAnswer            // it is executed; the client gets an error
	silence               // it is executed; the client gets no answer
	delay                 // the client gets an error; it is executed at letGo
	double                // it is executed twice
	doubleLate            // it is executed twice; the client gets the second answer at letGo
	delayForAWhile        // as delay, and it is executed after a while
	answerLate            // it is executed; the client gets the answer at letGo
	noSpace               // it is executed; the error is that there was no space left
	calmed                // it is executed; the error is that a proxy has ended the stream
	cancelCall            // it does not reach the server; the error is that of a closed client
	cancelStream          // it does not reach the server; the error is that a proxy has cancelled the stream
	stopping              // it is not executed; the error is that the member was stopping
	denied                // it does not reach the server; the error is that of a missing permission
)

type rule struct {
	method string
	n      int // the how-manieth from now; 0 for each
	action action
	count  int
	held   chan struct{} // closed to let a delayed one go
}

func newFaults() *faults { return &faults{seen: map[string]int{}} }

// dial has the requests of a client go through the faults.
func (f *faults) dial() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(f.unary), grpc.WithChainStreamInterceptor(f.stream)}
}

// on sets the outcome of the n-th request of a method from now on, or of each
// if n = 0.
func (f *faults) on(method string, n int, a action) *rule {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := &rule{method: method, n: n, action: a, held: make(chan struct{})}
	f.rules = append(f.rules, r)
	return r
}

// clear takes all rules away.
func (f *faults) clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = nil
}

// count is how many requests of a method there were.
func (f *faults) count(method string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen[method]
}

func (f *faults) take(method string) (action, *rule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen[method]++
	for _, r := range f.rules {
		if r.method != method {
			continue
		}
		r.count++
		if r.n == 0 || r.n == r.count {
			return r.action, r
		}
	}
	if f.random != nil {
		return f.random(method), nil
	}
	return pass, nil
}

var (
	errCut             = status.Error(codes.Unavailable, "connection was cut")
	errCancelled       = status.Error(codes.Canceled, "grpc: the client connection is closing")
	errStreamCancelled = status.Error(codes.Canceled, "stream terminated by RST_STREAM with error code: CANCEL")
	errStopping        = status.Error(codes.Unknown, "raft: stopped")
	errCalmed          = status.Error(codes.ResourceExhausted,
		"stream terminated by RST_STREAM with error code: ENHANCE_YOUR_CALM")
)

func (f *faults) unary(
	ctx context.Context, method string, req, reply any,
	cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	a, r := f.take(path.Base(method))
	switch a {
	case refuse:
		return errCut
	case cancelCall:
		return errCancelled
	case cancelStream:
		return errStreamCancelled
	case stopping:
		return errStopping
	case denied:
		return rpctypes.ErrGRPCPermissionDenied
	case dropAnswer:
		_ = invoke(ctx, method, req, reply, cc, opts...)
		return errCut
	case noSpace:
		_ = invoke(ctx, method, req, reply, cc, opts...)
		return rpctypes.ErrGRPCNoSpace
	case calmed:
		_ = invoke(ctx, method, req, reply, cc, opts...)
		return errCalmed
	case silence:
		_ = invoke(ctx, method, req, reply, cc, opts...)
		<-ctx.Done()
		return status.FromContextError(ctx.Err()).Err()
	case delay, delayForAWhile:
		f.late.Go(func() {
			if r == nil {
				time.Sleep(aWhile)
			} else {
				<-r.held
			}
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
			defer cancel()
			_ = invoke(ctx, method, req, newReply(reply), cc, opts...)
		})
		return errCut
	case answerLate:
		err := invoke(context.WithoutCancel(ctx), method, req, reply, cc, opts...)
		<-r.held
		return err
	case doubleLate:
		_ = invoke(context.WithoutCancel(ctx), method, req, newReply(reply), cc, opts...)
		<-r.held
	case double:
		_ = invoke(ctx, method, req, newReply(reply), cc, opts...)
	}
	return invoke(ctx, method, req, reply, cc, opts...)
}

func (f *faults) stream(
	ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn,
	method string, open grpc.Streamer, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	stream, err := open(ctx, desc, cc, method, opts...)
	if err != nil {
		return nil, err
	}
	return &faultyStream{ClientStream: stream, faults: f, method: path.Base(method)}, nil
}

// faultyStream applies the rules to each message that is sent. Its answer is
// refused or suppressed.
type faultyStream struct {
	grpc.ClientStream
	faults *faults
	method string
	silent atomic.Bool
}

func (s *faultyStream) SendMsg(m any) error {
	switch a, r := s.faults.take(s.method); a {
	case refuse:
		return errCut
	case silence:
		s.silent.Store(true)
	case answerLate:
		<-r.held
	}
	return s.ClientStream.SendMsg(m)
}

func (s *faultyStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if s.silent.Load() {
		<-s.Context().Done()
		return status.FromContextError(s.Context().Err()).Err()
	}
	return err
}

// letGo executes a delayed request, and waits until the server has answered.
func (f *faults) letGo(r *rule) {
	close(r.held)
	f.late.Wait()
}

// audited waits until a Locker has renewed its lease, and then looked for the
// keys of its holds.
func (f *faults) audited(t testing.TB) {
	t.Helper()
	before := f.count("LeaseTimeToLive")
	soon(t, "a renewal", func() bool { return f.count("LeaseTimeToLive") > before+1 }) // the first may be under way
}

// quiet waits until no request of a method was sent for so long. While this
// process stands still, no time passes.
func (f *faults) quiet(t testing.TB, method string, d time.Duration) {
	t.Helper()
	last, rounds := f.count(method), 0
	soon(t, "no "+method+" is sent", func() bool {
		rounds++
		if n := f.count(method); n != last {
			last, rounds = n, 0
		}
		return time.Duration(rounds)*time.Millisecond > d // soon sleeps for one
	})
}

// newReply returns an empty reply of the same type, for an answer that is
// discarded.
func newReply(reply any) any { return reflect.New(reflect.TypeOf(reply).Elem()).Interface() }
