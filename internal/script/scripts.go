package script

import (
	"slices"
	"strings"

	"github.com/relock-go/relock/lua"
)

// The scripts of the locks. The top of each file describes what the script
// does, its keys, arguments and answers.
var (
	Acquire          = luaScript("absent", "number", "lengthen", "other_kind", "fence", "acquire")
	Renew            = luaScript("absent", "number", "lengthen", "mark", "renew")
	Transfer         = luaScript("absent", "number", "lengthen", "fence_given", "mark", "transfer")
	Release          = luaScript("release_alone", "absent", "number", "mark", "message", "queue", "release").orAlone()
	ReentrantAcquire = luaScript("absent", "number", "lengthen", "other_kind", "fence", "reentrant_acquire")
	ReentrantEnter   = luaScript("absent", "number", "lengthen", "reentrant_enter")
	ReentrantRenew   = luaScript("absent", "number", "lengthen", "reentrant_renew")
	ReentrantRelease = luaScript("number", "reentrant_release_alone", "absent", "message", "queue", "reentrant_release").
				orAlone()
	Try = luaScript("number", "message", "queue", "fence", "grant", "lengthen",
		"kept", "take", "other_kind", "try")
	Enqueue = luaScript("number", "message", "queue", "fence", "grant", "lengthen", "kept", "take", "line",
		"other_kind", "enqueue")
	Claim = luaScript("number", "claim_reserved", "message", "queue", "fence", "grant", "lengthen", "kept", "take",
		"other_kind", "claim").orAlone()
	Cancel = luaScript("message", "queue", "cancel")
	Poll   = luaScript("number", "message", "queue", "polled", "kept", "poll")
	RWTry  = luaScript("number", "fence", "grant", "rw_kind", "rw_hold", "rw_try", "rw_fits_beside", "rw_beside",
		"message", "queue", "rw", "rw_fits", "rw_queue", "rw_take", "other_kind", "rw_try_queue")
	RWEnqueue = luaScript("number", "fence", "grant", "rw_kind", "rw_hold", "rw_enqueue", "rw_fits_beside", "rw_beside",
		"message", "queue", "rw", "rw_fits", "rw_queue", "rw_take", "line", "other_kind", "rw_enqueue_queue")
	RWClaim = luaScript("number", "fence", "grant", "rw_kind", "rw_hold", "message", "queue", "rw", "rw_fits",
		"rw_queue", "rw_take", "other_kind", "rw_claim")
	RWCancel  = luaScript("rw_kind", "message", "queue", "rw", "rw_fits", "rw_queue", "rw_cancel")
	RWPoll    = luaScript("number", "rw_kind", "message", "queue", "rw", "rw_fits", "rw_queue", "polled", "rw_poll")
	RWEnter   = luaScript("absent", "number", "rw_kind", "message", "queue", "rw", "rw_enter")
	RWRenew   = luaScript("absent", "number", "rw_kind", "message", "queue", "rw", "rw_renew").orAlone()
	RWRelease = luaScript("absent", "number", "rw_leave", "rw_leave_early", "rw_release", "rw_kind", "message",
		"queue", "rw", "rw_fits", "rw_queue", "rw_release_queue").orAlone()
	Inspect        = luaScript("message", "queue", "inspect").with(CounterSuffix)
	Notice         = luaScript("notice")
	RWInspect      = luaScript("rw_any", "message", "queue", "rw", "rw_inspect") // of semaphores too
	MultiAcquire   = luaScript("number", "message", "queue", "mark", "other_kind", "multi_acquire")
	RedLockAcquire = luaScript("number", "message", "fence", "absent", "other_kind", "redlock_acquire")
	RedLockWait    = RedLockAcquire.with(WaitersSuffix)
	RedLockRelease = luaScript("message", "redlock_wake", "mark", "redlock_release", "release_alone",
		"absent", "number", "queue", "release").with(WaitersSuffix).orAlone()
	RedLockUnwait = luaScript("message", "redlock_wake", "redlock_unwait").with(WaitersSuffix)
	FenceRaise    = luaScript("fence_raise")

	// A forced end, which the holder acknowledges.
	End   = luaScript("absent", "message", "queue", "end").with(NoticeSuffix)
	RWEnd = luaScript("absent", "rw_leave", "rw_kind", "message", "queue", "rw", "rw_fits", "rw_queue", "rw_end").
		with(NoticeSuffix)
	SemaphoreEnd = luaScript("absent", "rw_leave", "semaphore_kind", "message", "queue", "rw", "semaphore_fits",
		"rw_queue", "rw_end").with(NoticeSuffix)

	SemaphoreTry = luaScript("number", "semaphore_kind", "rw_hold", "rw_try", "semaphore_fits_beside", "rw_beside",
		"message", "queue", "rw", "semaphore_fits", "rw_queue", "rw_take", "other_kind", "rw_try_queue")
	SemaphoreEnqueue = luaScript("number", "semaphore_kind", "rw_hold", "rw_enqueue", "semaphore_fits_beside",
		"rw_beside", "message", "queue", "rw", "semaphore_fits", "rw_queue", "rw_take", "line", "other_kind",
		"rw_enqueue_queue")
	SemaphoreClaim = luaScript("number", "semaphore_kind", "rw_hold", "message", "queue", "rw", "semaphore_fits",
		"rw_queue", "rw_take", "other_kind", "rw_claim")
	SemaphoreCancel = luaScript("semaphore_kind", "message", "queue", "rw", "semaphore_fits", "rw_queue", "rw_cancel")
	SemaphorePoll   = luaScript("number", "semaphore_kind", "message", "queue", "rw", "semaphore_fits",
		"rw_queue", "polled", "rw_poll")
	SemaphoreRenew   = luaScript("absent", "number", "semaphore_kind", "message", "queue", "rw", "rw_renew").orAlone()
	SemaphoreRelease = luaScript("absent", "rw_leave", "rw_leave_early", "semaphore_release", "semaphore_kind",
		"message", "queue", "rw", "semaphore_fits", "rw_queue", "semaphore_release_queue").orAlone()

	ReentrantTransfer = luaScript("absent", "number", "lengthen", "fence", "fence_given", "reentrant_transfer")
)

// ContinueAfter returns the script that continues a hand-off which this one has
// left unfinished. Its first argument is no waiter.
func (s *Script) ContinueAfter() *Script {
	switch {
	case slices.Contains(s.files, "semaphore_kind"):
		return SemaphoreCancel
	case slices.Contains(s.files, "rw_kind"):
		return RWCancel
	}
	return Cancel
}

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

// orAlone marks a new script as one that can do with the lock's key only.
func (s *Script) orAlone() *Script {
	s.alone = true
	return s
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
	script.files = files
	if slices.Contains(files, "queue") {
		script.beside = []string{QueueSuffix, HeartbeatSuffix}
	}
	if slices.Contains(files, "rw") {
		script = script.with(HoldersSuffix)
	}
	if slices.Contains(files, "fence") || slices.Contains(files, "fence_given") {
		script.Fenced = script.with(CounterSuffix)
	}
	return script
}
