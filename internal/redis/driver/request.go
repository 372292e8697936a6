package driver

import (
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Request is one command to the server.
type Request struct {
	Cmd string
	// Args are the arguments. Those that a head has come before them, see
	// [Request.List].
	Args    []any
	head    head
	Ack     *Ack                 // waits for replicas once it was granted; nil for most requests
	Granted func(reply any) bool // reports whether the reply is a grant; used only for an Ack
	Waits   time.Duration        // that the server may take on top of the time of a command
	Asking  bool                 // ASKING is written in front of it; only for CallAsking
}

// Key returns the key that decides which node the request goes to: that of a
// SET or PTTL, or the first key of a script. It is "" if any node will do.
func (r Request) Key() string {
	if r.head.used {
		return r.head.key
	}
	at := 0
	switch r.Cmd {
	case "PTTL":
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

// head has the first arguments of the requests that locks send most. In a list
// each of them would need memory. The zero value has none.
type head struct {
	used   bool
	key    string
	text   string   // the value of SET, or the script
	beside []string // suffixes of the keys of the script beside key
	expiry int64    // of SET, in ms
}

// SetNX sets a key with an expiry if it does not exist.
func SetNX(key, value string, expiry time.Duration) Request {
	return Request{Cmd: "SET", head: head{used: true, key: key, text: value, expiry: expiry.Milliseconds()}}
}

// Eval runs a script, given as cmd takes it, with the key of a lock, the keys
// beside it, and further arguments.
func Eval(cmd, text, key string, beside []string, args []any) Request {
	return Request{Cmd: cmd, Args: args, head: head{used: true, key: key, text: text, beside: beside}}
}

// List returns all arguments.
func (r *Request) List() []any { return r.AppendTo(nil) }

// AppendTo appends all arguments to a list.
func (r *Request) AppendTo(list []any) []any {
	h := &r.head
	switch {
	case !h.used:
		return append(list, r.Args...)
	case r.Cmd == "SET":
		return append(list, h.key, h.text, "PX", h.expiry, "NX")
	}
	list = append(list, h.text, 1+len(h.beside), h.key)
	for _, end := range h.beside {
		list = append(list, h.key+end)
	}
	return append(list, r.Args...)
}

// Resolved returns arguments of a user as redigo writes them, without methods
// of the user. So a method that panics or blocks has no connection yet.
func Resolved(args []any) []any {
	resolved := make([]any, len(args))
	for i, arg := range args {
		if v, ok := arg.(redis.Argument); ok {
			arg = v.RedisArg()
		}
		switch arg.(type) {
		case string, []byte, int, int64, float64, bool, nil:
			resolved[i] = arg
		default:
			resolved[i] = fmt.Sprint(arg)
		}
	}
	return resolved
}
