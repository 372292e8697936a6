package scripttest

import (
	"time"

	"github.com/relock-go/relock/internal/script"
)

// OwnerNext is another owner of the same client.
const OwnerNext = "c1:g:2"

// TransferOf returns the request that hands off a reentrant hold.
func TransferOf(from, to string, lease time.Duration) script.Call {
	return script.Call{Script: script.ReentrantTransfer, Args: []any{from, OwnerUs, to, OwnerNext, lease.Milliseconds(), "next"}}
}

// ReleaseOfEither returns the release of a hold that may have been transferred.
func ReleaseOfEither(hold, heir string) script.Call {
	s := ReentrantReleaseOf(hold, 0, 9, 0)
	s.Args = append(s.Args, "", heir)
	return s
}

// Given returns the hash of a hold with one level.
func Given(owner, hold, info string) map[string]string {
	return map[string]string{owner: "1", "hold": hold, "seq": "#1", "info": info}
}
