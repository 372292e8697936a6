package relock

import "time"

// request is one command to the server.
type request struct {
	cmd     string
	args    []any
	confirm *confirmation        // by replicas, once it was granted; nil for most
	granted func(reply any) bool // reports whether the reply is a grant; nil without confirm
	waits   time.Duration        // that the server may take on top of what a command may
}

// minLimit keeps a request with a very short limit from cutting the connection
// under all others.
const minLimit = 100 * time.Millisecond
