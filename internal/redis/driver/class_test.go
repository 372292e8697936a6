package driver

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/test/testkit"
)

// A line that no server and no script of ours sends may come from a proxy,
// before or after the request was executed. It counts as unanswered.
func TestClassOfAnErrorLine(t *testing.T) {
	t.Parallel()
	for want, lines := range map[class][]string{
		unknown: {
			"upstream failure", "no upstream host", "ERR Connection refused",
			"ERR invalid request", "ERR LOADING later", "LOADINGX", "",
		},
		passing: {
			"LOADING Redis is loading", "ERR max number of clients reached",
			"ERR Script killed by user with SCRIPT KILL... script: 27c9",
		},
		final: {
			"WRONGTYPE Operation against a key", "DENIED Redis is running in protected mode",
			"ERR relock: acquire: bad arguments",
			"ERR unknown command 'X'", "ERR wrong number of arguments for 'get' command",
			"ERR user_script:3: attempt to index a nil value",
			"ERR Error running script (call to f_1): @user_script:3: user_script:3: attempt to index a nil value",
		},
	} {
		for _, line := range lines {
			require.Equal(t, want, classOf(Sanitize(redis.Error(line))), line)
			o := Result{Err: Sanitize(redis.Error(line)), Sent: time.Now(), Answered: IsKnown(redis.Error(line))}
			require.Equal(t, want == unknown, o.Unanswered(), line)
			require.False(t, o.IsMissing() || o.Broke(), line)
		}
	}
}

func TestClassOfATLSError(t *testing.T) {
	t.Parallel()
	of := func(err error) class { return classOf(&tls.CertificateVerificationError{Err: err}) }
	require.Equal(t, unknown, of(x509.CertificateInvalidError{Reason: x509.Expired}))
	require.Equal(t, final, of(x509.CertificateInvalidError{Reason: x509.NotAuthorizedToSign}))
	require.Equal(t, final, of(x509.UnknownAuthorityError{}))
	for alert, want := range map[tls.AlertError]class{45: unknown, 80: unknown, 42: final, 48: final} {
		require.Equal(t, want, classOf(&net.OpError{Op: "remote error", Err: alert}), alert)
	}
}

// An unknown error is final after a minute, if nothing else came meanwhile.
func TestUnknownErrorThatRepeats(t *testing.T) {
	line := redis.Error("upstream failure")
	for name, tt := range map[string]struct {
		between func(r *Repeats) // after half a minute
		final   bool
	}{
		"the same":      {func(r *Repeats) { _ = r.Judge(line) }, true},
		"a success":     {func(r *Repeats) { r.Succeeded() }, false},
		"another line":  {func(r *Repeats) { _ = r.Judge(redis.Error("no upstream host")) }, false},
		"a known error": {func(r *Repeats) { _ = r.Judge(io.EOF) }, false},
		"nothing":       {func(*Repeats) { time.Sleep(maxRepeats) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				var r Repeats
				require.True(t, IsTransient(r.Judge(line)))
				time.Sleep(maxRepeats / 2)
				tt.between(&r)
				time.Sleep(maxRepeats/2 - time.Second)
				require.True(t, IsTransient(r.Judge(line)))
				time.Sleep(time.Second)
				err := r.Judge(line)
				require.ErrorIs(t, err, line)
				require.Equal(t, tt.final, !IsTransient(err))
				if tt.final {
					require.EqualError(t, err, "upstream failure (the same 4 times in 1m0s, and no success)")
				}
			})
		})
	}
}

// An expired certificate that repeats ends a call, too, though each of its
// texts has another time.
func TestExpiredCertificateThatRepeats(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		expired := func() error {
			why := x509.CertificateInvalidError{Reason: x509.Expired, Detail: time.Now().String()}
			return &tls.CertificateVerificationError{Err: why}
		}
		var r Repeats
		for range 60 {
			require.True(t, IsTransient(r.Judge(expired())))
			time.Sleep(maxRepeats / 60)
		}
		err := r.Judge(expired())
		require.False(t, IsTransient(err))
		require.ErrorContains(t, err, "(the same 61 times in 1m0s, and no success)")
	})
}

// A script of the user may have its own errors.
func TestErrorLineOfAUsersScript(t *testing.T) {
	t.Parallel()
	line := redis.Error("MINE no")
	for _, err := range []error{line, lastingError{line, 2, time.Hour}} {
		require.False(t, IsTransient(OfScript(err)))
		require.EqualError(t, OfScript(err), "MINE no")
	}
	require.Equal(t, io.EOF, OfScript(io.EOF))
	require.NoError(t, OfScript(nil))
}

// Only the beginning of a long line is shown, but all of it decides.
func TestLongErrorLine(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 200)
	err := Sanitize(redis.Error("DENIED " + long))
	require.ErrorIs(t, err, errs.ErrDenied)
	require.Less(t, len(err.Error()), len(errs.ErrDenied.Error())+maxShown+10)
	require.True(t, utf8.ValidString(err.Error()))
	torn := Sanitize(redis.Error("ERR Error running " + long +
		": Script attempted to access a non local key in a cluster node"))
	require.True(t, IsTransient(torn))
	require.LessOrEqual(t, len(torn.Error()), maxShown+len("..."))
}
