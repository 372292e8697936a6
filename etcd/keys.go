package etcdlock

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/relock-go/relock/utils"
)

// The keys of a Locker. A name is escaped, so that no slash is left in it: then no two names share a key or a folder.
//
//	<prefix>lock/<name>          the hold of an unfair lock
//	<prefix>lock/<name>/<slot>   a hold of a fair lock, or a wait for it
//	<prefix>cancel/<hold>        a claim that was given up while its request was not answered

// lockKey is where an unfair lock is.
func (l *Locker) lockKey(name string) string { return l.config.prefix + "lock/" + url.PathEscape(name) }

// folder is where the holds of a fair lock are.
func (l *Locker) folder(name string) string { return l.lockKey(name) + "/" }

func (l *Locker) cancelKey(hold string) string { return l.config.prefix + "cancel/" + hold }

// slotKey is the key of a fair claim. No two Lockers share one, and no two claims of a Locker at the same time.
func (l *Locker) slotKey(s *slot) string {
	return l.folder(s.name) + l.id + "-" + strconv.FormatUint(s.series, 10) + "-" + strconv.Itoa(s.number)
}

// nextHoldLocked names a hold as nothing was named before.
func (l *Locker) nextHoldLocked() string {
	l.count++
	return l.id + "-" + strconv.FormatUint(l.count, 10)
}

// process is where this process runs, as values say it.
func process() string {
	host, pid := utils.Process()
	return url.PathEscape(host) + "|" + strconv.Itoa(pid)
}

// value is what a key says to people: the hold, where its process runs, and since when it asks.
func (l *Locker) value(hold string) string {
	return "relock/1|" + hold + "|" + l.process + "|" + time.Now().UTC().Format(time.RFC3339)
}

// holdOf is the hold that a value is of, or "".
func holdOf(value []byte) string {
	parts := strings.SplitN(string(value), "|", 3)
	if len(parts) < 3 || parts[0] != "relock/1" {
		return ""
	}
	return parts[1]
}
