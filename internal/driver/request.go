package driver

import "time"

// Request is one command to the server.
type Request struct {
	Cmd     string
	Args    []any
	Ack     *Ack                 // waits for replicas once it was granted; nil for most requests
	Granted func(reply any) bool // reports whether the reply is a grant; used only for an Ack
	waits   time.Duration        // that the server may take on top of the time of a command
}

// MinLimit keeps a request with a very short limit from closing the connection
// under all other requests.
const MinLimit = 100 * time.Millisecond

// SetNX sets a key with an expiry if it does not exist.
func SetNX(key, value string, expiry time.Duration) Request {
	return Request{Cmd: "SET", Args: []any{key, value, "PX", expiry.Milliseconds(), "NX"}}
}
