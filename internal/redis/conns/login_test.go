package conns

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// vault has the tokens of a server, and returns them to a client.
type vault struct {
	server *redistest.Server
	asked  atomic.Int64

	mu    sync.Mutex
	queue []string // returned one after another; the last one stays
	err   error
}

// newVault returns a server that accepts only the user app with this token.
func newVault(t testing.TB, token string) *vault {
	t.Helper()
	v := &vault{server: redistest.StartTCP(t), queue: []string{token}}
	v.server.Do(t, "ACL", "SETUSER", "app", "on", "~*", "&*", "+@all")
	v.rotate(t, token)
	return v
}

// rotate replaces the token at the server.
func (v *vault) rotate(t testing.TB, token string) {
	t.Helper()
	v.server.Do(t, "ACL", "SETUSER", "app", "resetpass", ">"+token)
}

func (v *vault) returns(tokens ...string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.queue = tokens
}

func (v *vault) get(context.Context) (user, password string, err error) {
	v.asked.Add(1)
	v.mu.Lock()
	defer v.mu.Unlock()
	password = v.queue[0]
	if len(v.queue) > 1 {
		v.queue = v.queue[1:]
	}
	return "app", password, v.err
}

func (v *vault) pool(t testing.TB) *Pool {
	return newTestPool(t, v.server, func(c *driver.Config) { c.Login = v.get })
}

func ping(t testing.TB, d *Pool) error {
	t.Helper()
	return d.Call(t.Context(), driver.Limits{}, driver.Request{Cmd: "PING"}).Err
}

func whoami(t testing.TB, d *Pool) string {
	t.Helper()
	user, err := driver.String(
		d.Call(t.Context(), driver.Limits{}, driver.Request{Cmd: "ACL", Args: []any{"WHOAMI"}}).Reply, nil)
	require.NoError(t, err)
	return user
}

// A server that ends the connections of an expired token costs no error: each
// new connection asks for the next one.
func TestTokenThatExpires(t *testing.T) {
	t.Parallel()
	v := newVault(t, "first")
	d := v.pool(t)
	l := linkOf(t, d)
	require.Equal(t, "app", whoami(t, d))
	requireAnswered(t, l.Pipeline(patient, []driver.Request{echo("x")}))
	for _, token := range []string{"second", "third"} {
		v.rotate(t, token)
		v.returns(token)
		asked := v.asked.Load()
		v.server.Do(t, "CLIENT", "KILL", "USER", "app")
		require.Equal(t, "app", whoami(t, d))
		require.Positive(t, v.asked.Load()-asked)
		requireAnswered(t, l.Pipeline(patient, []driver.Request{echo("x")}))
		require.Equal(t, asked+2, v.asked.Load(), "each new connection asks once")
	}
}

// A token that was replaced on its way is asked for once more.
func TestTokenThatWasReplaced(t *testing.T) {
	t.Parallel()
	v := newVault(t, "new")
	d := v.pool(t)
	v.returns("old", "new")
	require.NoError(t, ping(t, d))
	require.EqualValues(t, 2, v.asked.Load())

	d = v.pool(t)
	v.returns("wrong", "wrong again", "new")
	require.ErrorIs(t, ping(t, d), errs.ErrDenied, "only once")
	v.returns("wrong")
	asked := v.asked.Load()
	require.ErrorIs(t, ping(t, d), errs.ErrDenied)
	require.Equal(t, asked+2, v.asked.Load())
	require.NotContains(t, ping(t, d).Error(), "wrong again")
}

// A session that the server has ended on an open connection fails one request.
// The next one logs in again, over the pool, the shared connection and links.
func TestSessionThatEnds(t *testing.T) {
	t.Parallel()
	v := newVault(t, "token")
	v.server.Do(t, "CONFIG", "SET", "requirepass", "closed") // a session that has ended has no user
	reset := driver.Request{Cmd: "RESET"}
	shared := v.pool(t)
	shared.apart = 0
	apart, linked := v.pool(t), v.pool(t)
	l := linkOf(t, linked)
	for _, d := range []*Pool{shared, apart, linked} {
		require.NoError(t, ping(t, d))
	}
	requireAnswered(t, l.Pipeline(patient, []driver.Request{echo("x")}))
	send := map[string]func(driver.Request) error{
		"shared": func(r driver.Request) error { return shared.Send(t.Context(), driver.Limits{}, r).Err },
		"apart":  func(r driver.Request) error { return apart.Send(t.Context(), driver.Limits{}, r).Err },
		"linked": func(r driver.Request) error { return l.Pipeline(patient, []driver.Request{r})[0].Err },
	}
	for name, send := range send {
		require.NoError(t, send(reset), name)
		err := send(echo("x"))
		require.ErrorIs(t, err, errs.ErrDenied, name)
		require.ErrorContains(t, err, "NOAUTH", name)
		require.NoError(t, send(echo("x")), name)
	}
}

// A function that fails, panics or hangs costs its calls an error in time.
func TestCredentialsThatFail(t *testing.T) {
	t.Parallel()
	s := redistest.StartTCP(t)
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	away := &net.OpError{Op: "dial", Err: errors.New("vault is away")}
	testkit.Each(t, map[string]func(context.Context) (string, string, error){
		"credentials: dial: vault is away":       func(context.Context) (string, string, error) { return "", "", away },
		"credentials: credentials panicked: out": func(context.Context) (string, string, error) { panic("out") },
		"no answer from the server": func(context.Context) (string, string, error) {
			<-release
			return "", "", away
		},
	}, func(t *testing.T, want string, get func(context.Context) (string, string, error)) {
		d := newTestPool(t, s, func(c *driver.Config) { c.Login, c.DialTimeout = get, time.Second })
		watch := testkit.NewStopwatch(t)
		err := ping(t, d)
		require.ErrorContains(t, err, want)
		watch.Within(1500 * time.Millisecond)
		require.Equal(t, want != "credentials: credentials panicked: out", driver.IsTransient(err))
	})
	d := newTestPool(t, s, func(c *driver.Config) {
		c.Login = func(context.Context) (string, string, error) { return "", "", nil }
	})
	require.NoError(t, ping(t, d), "no password, no log-in")
}
