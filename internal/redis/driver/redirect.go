package driver

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/relock-go/relock/internal/errs"
)

// Redirect is what a server of a Cluster answers if another one takes requests
// for a key. It has executed nothing.
type Redirect struct {
	To   string // host:port; the host is empty if it is that of the server
	Once bool   // ASK: only this request; otherwise MOVED
}

// slots is the number of slots of a Cluster.
const slots = 16384

// RedirectIn returns the redirect in an error, and reports whether there is
// one.
func RedirectIn(err error) (Redirect, bool) {
	line, ok := ErrorLine(err)
	if !ok {
		return Redirect{}, false
	}
	return readRedirect(string(line))
}

// readRedirect reads a line "MOVED slot host:port", or the same with ASK. A
// server that does not know its name has no host, or "?".
func readRedirect(line string) (Redirect, bool) {
	word, rest, _ := strings.Cut(line, " ")
	if word != "MOVED" && word != "ASK" {
		return Redirect{}, false
	}
	number, server, _ := strings.Cut(rest, " ")
	if slot, err := strconv.ParseUint(number, 10, 16); err != nil || slot >= slots {
		return Redirect{}, false
	}
	to, ok := readAddress(server)
	return Redirect{to, word == "ASK"}, ok
}

// readAddress returns an address of a server in the form of package net. Redis
// writes no brackets around an IPv6 address. The name of a host has no slash,
// or it would be the path of a socket.
func readAddress(text string) (address string, ok bool) {
	colon := strings.LastIndexByte(text, ':')
	if colon < 0 {
		return "", false
	}
	host, port := text[:colon], text[colon+1:]
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", false
	}
	if inner, found := strings.CutPrefix(host, "["); found {
		host = strings.TrimSuffix(inner, "]")
	}
	if host == "?" {
		host = ""
	}
	return net.JoinHostPort(host, port), !strings.ContainsAny(host, "/[] ")
}

// From returns the address to use: a server without a host is at that of the
// server that has answered.
func (r Redirect) From(address string) string {
	host, port, err := net.SplitHostPort(r.To)
	if err != nil || host != "" {
		return r.To
	}
	if host, _, err = net.SplitHostPort(address); err != nil {
		return "" // a socket has no host
	}
	return net.JoinHostPort(host, port)
}

// MaxRedirects limits the redirects of one request, with the nodes that were
// retired before it was sent. While slots move, servers may disagree about
// where a key is.
const MaxRedirects = 5

// RedirectsError is the error of a request after too many redirects. The
// servers may agree later.
type RedirectsError struct{ Last error }

func (e RedirectsError) Error() string {
	return fmt.Sprintf("servers disagree about which one has the key: %v after %d redirects", e.Last, MaxRedirects)
}

// Unwrap returns the last redirect.
func (e RedirectsError) Unwrap() error { return e.Last }

// IsEndless reports whether a request was given up after too many redirects.
func IsEndless(err error) bool {
	var e RedirectsError
	return errors.As(err, &e)
}

// errInCluster is the error of a client of one server, which follows no
// redirect.
var errInCluster = fmt.Errorf("%w: the server is part of a Cluster, use NewClientCluster", errs.ErrInvalid)
