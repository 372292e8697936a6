package relock

import (
	"crypto/sha1"
	"encoding/hex"

	"github.com/relock-go/relock/internal/driver"
)

// Script is a Lua script for [Client.Eval]. It is sent by its SHA-1 digest, and in full when the server does
// not know it yet.
type Script struct {
	source string
	sha    string
	beside []string // what the names of its keys beside the lock's end in
	fenced *Script  // the same with the counter of fencing tokens among its keys; nil for one that draws none
	rw     bool     // of a read/write lock
}

// NewScript returns a script with this source. Give names and values as keys and arguments, never as part of
// the source: each source stays in the server's memory.
func NewScript(source string) *Script {
	sum := sha1.Sum([]byte(source)) // Redis names scripts by SHA-1; nothing depends on its strength
	return &Script{source: source, sha: hex.EncodeToString(sum[:])}
}

// bySHA and bySource are the two ways to run the script.
func (s *Script) bySHA(keys []string, args []any) driver.Request {
	return s.request("EVALSHA", s.sha, keys, args)
}

func (s *Script) bySource(keys []string, args []any) driver.Request {
	return s.request("EVAL", s.source, keys, args)
}

func (s *Script) request(cmd, text string, keys []string, args []any) driver.Request {
	all := make([]any, 0, 2+len(keys)+len(args))
	all = append(all, text, len(keys))
	for _, key := range keys {
		all = append(all, key)
	}
	return driver.Request{Cmd: cmd, Args: append(all, args...)}
}
