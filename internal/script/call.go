package script

import "github.com/relock-go/relock/internal/driver"

// Call is one script with its lock and arguments.
type Call struct {
	Script   *Script
	Key      string // of the lock
	Args     []any
	Together []string // the keys of several locks, in place of key
}

// Keys returns the lock's key and those beside it.
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

// ByDigest returns the request that runs the script by its digest.
func (s Call) ByDigest() driver.Request { return s.Script.ByDigest(s.Keys(), s.Args) }

// BySource returns the request that runs the script in full.
func (s Call) BySource() driver.Request { return s.Script.BySource(s.Keys(), s.Args) }

// Next is what to send in place of a script that was refused: in full where the
// server did not know it, and a release for the lock alone where it may not
// name its keys together. Waiters then find out by their polls.
func (s Call) Next(err error) (driver.Request, bool) {
	switch {
	case driver.IsNoScript(err):
		return s.BySource(), true
	case driver.AreKeysRefused(err) && (s.Script == Release || s.Script == RedLockRelease || s.Script == ReentrantRelease || s.Script == RWRelease || s.Script == RWRenew):
		return s.Script.BySource([]string{s.Key}, s.Args), true
	}
	return driver.Request{}, false
}
