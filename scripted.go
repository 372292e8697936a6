package relock

import "github.com/relock-go/relock/internal/driver"

// scripted is one script with its lock and arguments.
type scripted struct {
	script   *Script
	key      string // of the lock
	args     []any
	together []string // the keys of several locks, in place of key
}

// keys returns the lock's key and those beside it.
func (s scripted) keys() []string {
	if s.together != nil {
		return s.together
	}
	keys := make([]string, 1, 1+len(s.script.beside))
	keys[0] = s.key
	for _, end := range s.script.beside {
		keys = append(keys, s.key+end)
	}
	return keys
}

func (s scripted) bySHA() driver.Request    { return s.script.bySHA(s.keys(), s.args) }
func (s scripted) bySource() driver.Request { return s.script.bySource(s.keys(), s.args) }

// after is what to send in place of a script that was refused: in full where the server did not know it, and a release
// for the lock alone where it may not name its keys together. Waiters then find out by their polls.
func (s scripted) after(err error) (driver.Request, bool) {
	switch {
	case driver.IsNoScript(err):
		return s.bySource(), true
	case driver.AreKeysRefused(err) && (s.script == releaseScript || s.script == redlockReleaseScript || s.script == reentrantReleaseScript || s.script == rwReleaseScript || s.script == rwRenewScript):
		return s.script.bySource([]string{s.key}, s.args), true
	}
	return driver.Request{}, false
}
