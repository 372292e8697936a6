package relock

import (
	"embed"
	"slices"
	"strings"
)

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
