package relock

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"slices"
	"strings"
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

// keys are the lock's and those beside it.
func (s scripted) keys() []string {
	keys := make([]string, 1, 1+len(s.script.beside))
	keys[0] = s.key
	for _, end := range s.script.beside {
		keys = append(keys, s.key+end)
	}
	return keys
}

// drawing is the script that takes a lock with these settings: with a fencing token or without.
func (s *lockSettings) drawing(script *Script) *Script {
	if s.fencing {
		return script.fenced
	}
	return script
}

func (s scripted) bySHA() request    { return s.script.bySHA(s.keys(), s.args) }
func (s scripted) bySource() request { return s.script.bySource(s.keys(), s.args) }

// after is what to send in place of a script that was refused: in full where the server did not know it, and a release
// for the lock alone where it may not name its keys together. Waiters then find out by their polls.
func (s scripted) after(err error) (request, bool) {
	switch {
	case isNoScript(err):
		return s.bySource(), true
	case needsAlone(err) && (s.script == releaseScript || s.script == redlockReleaseScript || s.script == reentrantReleaseScript || s.script == rwReleaseScript || s.script == rwRenewScript):
		return s.script.bySource([]string{s.key}, s.args), true
	}
	return request{}, false
}

// needsAlone says that a script was refused for its keys: a Cluster is moving their slot, or only the lock's is permitted, in the words of
// Redis 6.2 and 7.0, or of 7.2 and newer. A command in a script is refused in others.
func needsAlone(err error) bool {
	line, ok := errorLine(err)
	return ok && (code(line) == "TRYAGAIN" ||
		isDenied(line) && strings.Contains(string(line), "the keys used as arguments") ||
		strings.HasPrefix(string(line), "NOPERM No permissions to access a key"))
}

// The scripts of the locks, and what they share. What each does, and its keys, arguments and answers, stand at the
// top of its file.
//
//go:embed lua/*.lua
var luaFiles embed.FS

var (
	acquireScript          = luaScript("absent", "number", "fence", "acquire")
	renewScript            = luaScript("absent", "number", "renew")
	releaseScript          = luaScript("release_alone", "absent", "number", "queue", "release")
	reentrantAcquireScript = luaScript("absent", "number", "fence", "reentrant_acquire")
	reentrantEnterScript   = luaScript("absent", "number", "reentrant_enter")
	reentrantRenewScript   = luaScript("absent", "number", "reentrant_renew")
	reentrantReleaseScript = luaScript("number", "reentrant_release_alone", "absent", "queue", "reentrant_release")
	tryScript              = luaScript("number", "queue", "fence", "grant", "take", "try")
	enqueueScript          = luaScript("number", "queue", "fence", "grant", "take", "line", "enqueue")
	claimScript            = luaScript("number", "claim_reserved", "queue", "fence", "grant", "take", "claim")
	cancelScript           = luaScript("queue", "cancel")
	pollScript             = luaScript("number", "queue", "polled", "poll")
	rwTryScript            = luaScript("number", "queue", "fence", "grant", "rw", "rw_queue", "rw_take", "rw_try")
	rwEnqueueScript        = luaScript("number", "queue", "fence", "grant", "rw", "rw_queue", "rw_take", "line", "rw_enqueue")
	rwClaimScript          = luaScript("number", "queue", "fence", "grant", "rw", "rw_queue", "rw_take", "rw_claim")
	rwCancelScript         = luaScript("queue", "rw", "rw_queue", "rw_cancel")
	rwPollScript           = luaScript("number", "queue", "rw", "rw_queue", "polled", "rw_poll")
	rwEnterScript          = luaScript("absent", "number", "queue", "rw", "rw_enter")
	rwRenewScript          = luaScript("absent", "number", "queue", "rw", "rw_renew")
	rwReleaseScript        = luaScript("absent", "number", "queue", "rw", "rw_queue", "rw_release")
	inspectScript          = luaScript("queue", "inspect").with(endOfCounter)
	noticeScript           = luaScript("notice")
	rwInspectScript        = luaScript("queue", "rw", "rw_inspect")
	rwForceScript          = luaScript("absent", "queue", "rw", "rw_queue", "rw_force").with(endOfNotice)
	forceScript            = luaScript("absent", "queue", "force").with(endOfNotice)
	multiAcquireScript     = luaScript("number", "queue", "multi_acquire")
	redlockAcquireScript   = luaScript("number", "fence", "redlock_acquire")
	redlockWaitScript      = redlockAcquireScript.with(endOfPlaces)
	redlockReleaseScript   = luaScript("wake", "redlock_release", "release_alone", "absent", "number", "queue", "release").with(endOfPlaces)
	redlockUnwaitScript    = luaScript("wake", "redlock_unwait").with(endOfPlaces)
	fenceRaiseScript       = luaScript("fence_raise")

	reentrantTransferScript = luaScript("absent", "number", "fence", "reentrant_transfer")
)

// What the names of the keys beside a lock end in.
const (
	endOfQueue   = ":q"
	endOfBeats   = ":b"
	endOfCounter = ":f"
	endOfNotice  = ":x"
	endOfHolders = ":h"
	endOfPlaces  = ":w"
)

// with is the same script with one more key.
func (s *Script) with(end string) *Script {
	other := *s
	other.beside = append(slices.Clone(s.beside), end)
	if s.fenced != nil {
		other.fenced = s.fenced.with(end)
	}
	return &other
}

// luaScript joins files to one script. One with the queue in it has the queue's keys.
func luaScript(files ...string) *Script {
	var source strings.Builder
	for _, name := range files {
		text, _ := luaFiles.ReadFile("lua/" + name + ".lua") // there: a missing one is a script that every test finds broken
		source.Write(text)
		source.WriteByte('\n')
	}
	script := NewScript(source.String())
	if slices.Contains(files, "queue") {
		script.beside = []string{endOfQueue, endOfBeats}
	}
	if script.rw = slices.Contains(files, "rw"); script.rw {
		script = script.with(endOfHolders)
	}
	if slices.Contains(files, "fence") {
		script.fenced = script.with(endOfCounter)
	}
	return script
}

// What the scripts answer.
const (
	answerOurs     = 1
	answerKept     = 2 // released before, and kept for its minimum hold
	answerUnqueued = 3 // the wait is not in the queue
	answerMore     = 4 // done, and more waits are before the next one that lives than one script looks at
	answerFull     = 5 // as many wait as may
	answerYoung    = 6 // the server was started too short a time ago
	answerShared   = 7 // others read
	answerOther    = 0 // held by others; not ours
	answerAlien    = -1
)

// isOurs says that a release or a renewal found what it was for.
func isOurs(reply any) bool {
	return reply == int64(answerOurs) || reply == int64(answerKept) || reply == int64(answerMore)
}
