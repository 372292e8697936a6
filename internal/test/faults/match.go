package faults

import (
	"crypto/sha1"
	"encoding/hex"
	"strings"
)

// Match reports whether a rule applies to a request. args are the command and
// its arguments, as they were sent. Match is called under a lock, and must not
// call the proxy.
type Match func(args []string) bool

// Any reports whether a request matches. All do but the PING with which a
// connection begins: it is part of the dial.
func Any(args []string) bool { return !strings.EqualFold(args[0], "PING") }

// Command matches a command by its name.
func Command(name string) Match {
	return func(args []string) bool { return strings.EqualFold(args[0], name) }
}

// Script matches calls of one script, by its SHA-1 digest or by its source. If
// the server does not know the digest, a call by digest and one by source are
// counted as two.
func Script(sha string) Match {
	return func(args []string) bool {
		if len(args) < 2 {
			return false
		}
		switch strings.ToUpper(args[0]) {
		case "EVALSHA":
			return strings.EqualFold(args[1], sha)
		case "EVAL":
			sum := sha1.Sum([]byte(args[1])) // how Redis names scripts
			return strings.EqualFold(hex.EncodeToString(sum[:]), sha)
		}
		return false
	}
}
