package relock

import (
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
)

// Script is a Lua script for [Client.Eval]. It is sent by its SHA-1 digest, and in full when the server does
// not know it yet.
type Script struct {
	source string
	sha    string
}

// NewScript returns a script with this source. Give names and values as keys and arguments, never as part of
// the source: each source stays in the server's memory.
func NewScript(source string) *Script {
	sum := sha1.Sum([]byte(source)) // Redis names scripts by SHA-1; nothing depends on its strength
	return &Script{source: source, sha: hex.EncodeToString(sum[:])}
}

// request is one command to the server.
type request struct {
	cmd  string
	args []any
}

// bySHA and bySource are the two ways to run the script.
func (s *Script) bySHA(keys []string, args []any) request {
	return s.request("EVALSHA", s.sha, keys, args)
}

func (s *Script) bySource(keys []string, args []any) request {
	return s.request("EVAL", s.source, keys, args)
}

func (s *Script) request(cmd, text string, keys []string, args []any) request {
	all := make([]any, 0, 2+len(keys)+len(args))
	all = append(all, text, len(keys))
	for _, key := range keys {
		all = append(all, key)
	}
	return request{cmd: cmd, args: append(all, args...)}
}

// scripted is one script with its key and arguments.
type scripted struct {
	script *Script
	key    string
	args   []any
}

func (s scripted) bySHA() request    { return s.script.bySHA([]string{s.key}, s.args) }
func (s scripted) bySource() request { return s.script.bySource([]string{s.key}, s.args) }

// The scripts of the locks. What each does, and its keys, arguments and answers, stand at the top of its
// file.
var (
	//go:embed lua/acquire.lua
	acquireSource string
	//go:embed lua/renew.lua
	renewSource string
	//go:embed lua/release.lua
	releaseSource string
	//go:embed lua/reentrant_acquire.lua
	reentrantAcquireSource string
	//go:embed lua/reentrant_enter.lua
	reentrantEnterSource string
	//go:embed lua/reentrant_renew.lua
	reentrantRenewSource string
	//go:embed lua/reentrant_release.lua
	reentrantReleaseSource string

	acquireScript          = NewScript(acquireSource)
	renewScript            = NewScript(renewSource)
	releaseScript          = NewScript(releaseSource)
	reentrantAcquireScript = NewScript(reentrantAcquireSource)
	reentrantEnterScript   = NewScript(reentrantEnterSource)
	reentrantRenewScript   = NewScript(reentrantRenewSource)
	reentrantReleaseScript = NewScript(reentrantReleaseSource)
)

// What the scripts answer.
const (
	answerOurs  = 1
	answerKept  = 2 // released before, and kept for its minimum hold
	answerOther = 0 // held by others; not ours
	answerAlien = -1
)

// isOurs says that a release or a renewal found what it was for.
func isOurs(reply any) bool { return reply == int64(answerOurs) || reply == int64(answerKept) }
