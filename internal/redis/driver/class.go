package driver

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"slices"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// class is what an error means for a call that may wait.
type class int

const (
	final   class = iota // a mistake: the call ends immediately
	passing              // known to go away: the call waits
	unknown              // the call waits, but see repeats
)

// IsTransient reports whether the same request may be answered later. The
// server, the network, the pool or something in between has failed temporarily,
// or for a reason that is not known to stay.
func IsTransient(err error) bool { return classOf(err) != final }

// classOf returns the class of an error of a server, a connection or a dial.
// Errors of other kinds are final.
func classOf(err error) class {
	var lasts lastingError
	var script scriptError
	switch {
	case err == nil, errors.As(err, &lasts), errors.As(err, &script):
		return final
	case errors.Is(err, redis.ErrPoolExhausted), IsEndless(err):
		return passing
	}
	if line, ok := ErrorLine(err); ok {
		return classOfLine(line)
	}
	if alert, ok := alertIn(err); ok {
		return classOfAlert(alert)
	}
	switch {
	case isExpired(err):
		return unknown
	case IsNetwork(err):
		return passing
	}
	return final
}

// scriptError is an unknown line in answer to a script of the user, which may
// have its own errors.
type scriptError struct{ error }

// Unwrap returns the line.
func (e scriptError) Unwrap() error { return e.error }

// OfScript returns the error of a script of the user. An unknown line is final
// then.
func OfScript(err error) error {
	var lasts lastingError
	if errors.As(err, &lasts) {
		err = lasts.error
	}
	if IsAnswer(err) && classOf(err) == unknown {
		return scriptError{err}
	}
	return err
}

// isExpired reports whether the server's certificate has expired, or is not
// valid yet. It may be about to be replaced. An unknown authority and a wrong
// name are mistakes in the settings.
func isExpired(err error) bool {
	var invalid x509.CertificateInvalidError
	return errors.As(err, &invalid) && invalid.Reason == x509.Expired
}

// alertIn returns the text of the TLS alert in an error, and reports whether
// there is one. package net calls it a "remote error" or a "local error".
func alertIn(err error) (text string, ok bool) {
	var op *net.OpError
	if errors.As(err, &op) && strings.HasSuffix(op.Op, " error") {
		return op.Err.Error(), true
	}
	return "", false
}

// finalAlerts are those by which a server does not accept the client, or what
// it can do.
var finalAlerts = []tls.AlertError{
	40,  // no common ground, or no certificate
	42,  // bad certificate
	43,  // unsupported certificate
	48,  // unknown authority
	49,  // access denied
	70,  // protocol version
	116, // certificate required
}

func classOfAlert(text string) class {
	if slices.ContainsFunc(finalAlerts, func(a tls.AlertError) bool { return a.Error() == text }) {
		return final
	}
	return unknown
}
