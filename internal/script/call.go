package script

import (
	"github.com/relock-go/relock/internal/redis/driver"
)

// Call is one script with its lock and arguments.
type Call struct {
	Script   *Script
	Key      string // of the lock
	Args     []any
	Together []string // the keys of several locks; if set, Key is not used
}

// Keys returns the lock's key and the keys beside it, or Together.
func (s Call) Keys() []string {
	if s.Together != nil {
		return s.Together
	}
	keys := make([]string, 1, 1+len(s.Script.beside))
	keys[0] = s.Key
	for _, end := range s.Script.beside {
		keys = append(keys, s.Key+end)
	}
	return keys
}

// request returns the request of a single call. A batch needs a list of all
// arguments.
func (s Call) request(cmd, text string) driver.Request {
	if s.Together != nil || s.Key == "" {
		return s.Script.request(cmd, text, s.Keys(), s.Args)
	}
	return driver.Eval(cmd, text, s.Key, s.Script.beside, s.Args)
}

// ByDigest returns the request that runs the script by its digest.
func (s Call) ByDigest() driver.Request { return s.Script.ByDigest(s.Keys(), s.Args) }

// BySource returns the request that runs the script in full.
func (s Call) BySource() driver.Request { return s.Script.BySource(s.Keys(), s.Args) }

// Next returns what to send after a script was refused with err. A script that
// the server does not know is sent in full. One that may not name its keys
// together is sent with the lock's key only, if it can do with that: after such
// a release, waiters learn of it by polling. Next reports whether there is
// something to send.
func (s Call) Next(err error) (driver.Request, bool) {
	switch {
	case driver.IsNoScript(err):
		return s.BySource(), true
	case s.Script.alone && driver.AreKeysRefused(err):
		return s.Script.BySource([]string{s.Key}, s.Args), true
	}
	return driver.Request{}, false
}
