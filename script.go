package relock

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"errors"
	"slices"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// Script is a Lua script for [Client.Eval]. It is sent by its SHA-1 digest, and in full when the server does
// not know it yet.
type Script struct {
	source string
	sha    string
	queue  bool // has the keys of a lock's queue too
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

// scripted is one script with its lock and arguments.
type scripted struct {
	script *Script
	key    string // of the lock
	args   []any
}

// keys are the lock's and, for scripts that hand it over, those of its queue.
func (s scripted) keys() []string {
	if s.script.queue {
		return []string{s.key, s.key + ":q", s.key + ":b"}
	}
	return []string{s.key}
}

func (s scripted) bySHA() request    { return s.script.bySHA(s.keys(), s.args) }
func (s scripted) bySource() request { return s.script.bySource(s.keys(), s.args) }

// after is what to send in place of a script that was refused: in full where the server did not know it, and a release
// for the lock alone where it may not name the three keys together. Waiters then find out by their polls.
func (s scripted) after(err error) (request, bool) {
	switch {
	case isNoScript(err):
		return s.bySource(), true
	case needsAlone(err) && (s.script == releaseScript || s.script == reentrantReleaseScript):
		return s.script.bySource([]string{s.key}, s.args), true
	}
	return request{}, false
}

// needsAlone says that a script was refused for its keys: a Cluster is moving their slot, or only the lock's is permitted.
func needsAlone(err error) bool {
	var line redis.Error
	return errors.As(err, &line) && (code(line) == "TRYAGAIN" || isDenied(line) && strings.Contains(string(line), "the keys used as arguments"))
}

// The scripts of the locks, and what they share. What each does, and its keys, arguments and answers, stand at the
// top of its file.
//
//go:embed lua/*.lua
var luaFiles embed.FS

var (
	acquireScript          = luaScript("number", "acquire")
	renewScript            = luaScript("number", "renew")
	releaseScript          = luaScript("number", "queue", "release")
	reentrantAcquireScript = luaScript("number", "reentrant_acquire")
	reentrantEnterScript   = luaScript("number", "reentrant_enter")
	reentrantRenewScript   = luaScript("number", "reentrant_renew")
	reentrantReleaseScript = luaScript("number", "queue", "reentrant_release")
	tryScript              = luaScript("number", "queue", "take", "try")
	enqueueScript          = luaScript("number", "queue", "take", "enqueue")
	claimScript            = luaScript("number", "queue", "take", "claim")
	cancelScript           = luaScript("queue", "cancel")
	pollScript             = luaScript("number", "queue", "poll")
)

// luaScript joins files to one script. One with the queue in it has three keys.
func luaScript(files ...string) *Script {
	var source strings.Builder
	for _, name := range files {
		text, _ := luaFiles.ReadFile("lua/" + name + ".lua") // there: a missing one is a script that every test finds broken
		source.Write(text)
		source.WriteByte('\n')
	}
	script := NewScript(source.String())
	script.queue = slices.Contains(files, "queue")
	return script
}

// What the scripts answer.
const (
	answerOurs     = 1
	answerKept     = 2 // released before, and kept for its minimum hold
	answerUnqueued = 3 // the wait is not in the queue
	answerMore     = 4 // done, and more waits are before the next one that lives than one script looks at
	answerOther    = 0 // held by others; not ours
	answerAlien    = -1
)

// isOurs says that a release or a renewal found what it was for.
func isOurs(reply any) bool {
	return reply == int64(answerOurs) || reply == int64(answerKept) || reply == int64(answerMore)
}
