package script

import (
	"slices"
	"strings"

	"github.com/relock-go/relock/lua"
)

// The scripts of the locks. The top of each file describes what the script
// does, its keys, arguments and answers.
var (
	Acquire          = luaScript("absent", "number", "fence", "acquire")
	Renew            = luaScript("absent", "number", "renew")
	Transfer         = luaScript("absent", "number", "transfer")
	Release          = luaScript("release_alone", "absent", "number", "queue", "release")
	ReentrantAcquire = luaScript("absent", "number", "fence", "reentrant_acquire")
	ReentrantEnter   = luaScript("absent", "number", "reentrant_enter")
	ReentrantRenew   = luaScript("absent", "number", "reentrant_renew")
	ReentrantRelease = luaScript("number", "reentrant_release_alone", "absent", "queue", "reentrant_release")
	Try              = luaScript("number", "queue", "fence", "grant", "take", "try")
	Enqueue          = luaScript("number", "queue", "fence", "grant", "take", "line", "enqueue")
	Claim            = luaScript("number", "claim_reserved", "queue", "fence", "grant", "take", "claim")
	Cancel           = luaScript("queue", "cancel")
	Poll             = luaScript("number", "queue", "polled", "poll")
	RWTry            = luaScript("number", "queue", "fence", "grant", "rw", "rw_queue", "rw_take", "rw_try")
	RWEnqueue        = luaScript("number", "queue", "fence", "grant", "rw", "rw_queue", "rw_take", "line", "rw_enqueue")
	RWClaim          = luaScript("number", "queue", "fence", "grant", "rw", "rw_queue", "rw_take", "rw_claim")
	RWCancel         = luaScript("queue", "rw", "rw_queue", "rw_cancel")
	RWPoll           = luaScript("number", "queue", "rw", "rw_queue", "polled", "rw_poll")
	RWEnter          = luaScript("absent", "number", "queue", "rw", "rw_enter")
	RWRenew          = luaScript("absent", "number", "queue", "rw", "rw_renew")
	RWRelease        = luaScript("absent", "number", "queue", "rw", "rw_queue", "rw_release")
	Inspect          = luaScript("queue", "inspect").with(CounterSuffix)
	Notice           = luaScript("notice")
	RWInspect        = luaScript("queue", "rw", "rw_inspect")
	RWForce          = luaScript("absent", "queue", "rw", "rw_queue", "rw_force").with(NoticeSuffix)
	Force            = luaScript("absent", "queue", "force").with(NoticeSuffix)
	MultiAcquire     = luaScript("number", "queue", "multi_acquire")
	RedLockAcquire   = luaScript("number", "fence", "redlock_acquire")
	RedLockWait      = RedLockAcquire.with(WaitersSuffix)
	RedLockRelease   = luaScript("redlock_wake", "redlock_release", "release_alone", "absent", "number", "queue", "release").with(WaitersSuffix)
	RedLockUnwait    = luaScript("redlock_wake", "redlock_unwait").with(WaitersSuffix)
	FenceRaise       = luaScript("fence_raise")

	ReentrantTransfer = luaScript("absent", "number", "fence", "reentrant_transfer")
)

// The suffixes of the keys beside a lock.
const (
	QueueSuffix     = ":q"
	HeartbeatSuffix = ":b"
	CounterSuffix   = ":f"
	NoticeSuffix    = ":x"
	HoldersSuffix   = ":h"
	WaitersSuffix   = ":w"
)

// with returns the same script with one more key.
func (s *Script) with(end string) *Script {
	other := *s
	other.beside = append(slices.Clone(s.beside), end)
	if s.Fenced != nil {
		other.Fenced = s.Fenced.with(end)
	}
	return &other
}

// luaScript joins files to one script. A script with the queue among its files
// has the queue's keys.
func luaScript(files ...string) *Script {
	var source strings.Builder
	for _, name := range files {
		// No error is checked: without one of its files, every test finds the
		// script broken.
		text, _ := lua.Files.ReadFile(name + ".lua")
		source.Write(text)
		source.WriteByte('\n')
	}
	script := New(source.String())
	if slices.Contains(files, "queue") {
		script.beside = []string{QueueSuffix, HeartbeatSuffix}
	}
	if script.ReadWrite = slices.Contains(files, "rw"); script.ReadWrite {
		script = script.with(HoldersSuffix)
	}
	if slices.Contains(files, "fence") {
		script.Fenced = script.with(CounterSuffix)
	}
	return script
}
