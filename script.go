package relock

import "github.com/relock-go/relock/internal/script"

// Script is a Lua script for [Client.Eval]. It is sent by its SHA-1 digest, and
// in full if the server does not know it yet.
type Script struct{ code *script.Script }

// NewScript returns a script with this source. Pass names and values as keys
// and arguments, never as part of the source: each source stays in the server's
// memory.
func NewScript(source string) *Script { return &Script{script.New(source)} }
