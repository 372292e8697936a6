package script

import (
	"crypto/sha1"
	"encoding/hex"

	"github.com/relock-go/relock/internal/redis/driver"
)

// Script is a Lua script.
type Script struct {
	Source string
	SHA    string
	files  []string // that it was joined from
	beside []string // suffixes of its keys beside the lock
	Fenced *Script  // with the counter of fencing tokens among its keys; nil if it needs none
	alone  bool     // it can do with the lock's key only
}

// New returns a script with this source.
func New(source string) *Script {
	sum := sha1.Sum([]byte(source)) // Redis names scripts by SHA-1; nothing depends on its strength
	return &Script{Source: source, SHA: hex.EncodeToString(sum[:])}
}

// ByDigest returns the request that runs the script by its digest.
func (s *Script) ByDigest(keys []string, args []any) driver.Request {
	return s.request("EVALSHA", s.SHA, keys, args)
}

// BySource returns the request that runs the script in full.
func (s *Script) BySource(keys []string, args []any) driver.Request {
	return s.request("EVAL", s.Source, keys, args)
}

func (s *Script) request(cmd, text string, keys []string, args []any) driver.Request {
	all := make([]any, 0, 2+len(keys)+len(args))
	all = append(all, text, len(keys))
	for _, key := range keys {
		all = append(all, key)
	}
	return driver.Request{Cmd: cmd, Args: append(all, args...)}
}
