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

// Key returns the key that decides which node the request goes to: that of a
// SET, or the first key of a script. It is "" if any node will do.
func (r Request) Key() string {
	at := 0
	switch r.Cmd {
	case "SET":
	case "EVAL", "EVALSHA": // a script, the number of its keys, the keys
		if at = 2; len(r.Args) > 1 && r.Args[1] == 0 {
			return ""
		}
	default:
		return ""
	}
	if at >= len(r.Args) {
		return ""
	}
	key, _ := r.Args[at].(string)
	return key
}

// MinLimit keeps a request with a very short limit from closing the connection
// under all other requests.
const MinLimit = 100 * time.Millisecond

// SetNX sets a key with an expiry if it does not exist.
func SetNX(key, value string, expiry time.Duration) Request {
	return Request{Cmd: "SET", Args: []any{key, value, "PX", expiry.Milliseconds(), "NX"}}
}
