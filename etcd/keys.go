package etcdlock

import (
	"crypto/rand"
	"encoding/base64"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/relock-go/relock/utils"
)

// The keys of a Locker. A name is escaped, so that no slash is left in it: then no two names share a key or a folder.
//
//	<prefix>lock/<name>/         the hold of an unfair lock
//	<prefix>lock/<name>/<slot>   a hold of a fair lock, or a wait for it
//	<prefix>cancel/<hold>        a claim that was given up while its request was not answered

// folder is where all that a lock has is. As a key it is the hold of an unfair one, so that one comparison, and one read,
// are of both sorts.
func (l *Locker) folder(name string) string {
	return l.config.prefix + "lock/" + url.PathEscape(name) + "/"
}

func (l *Locker) cancelKey(hold string) string { return l.config.prefix + "cancel/" + hold }

// slotKey is the key of a fair claim. No two Lockers share one, and no two claims of a Locker at the same time.
func (l *Locker) slotKey(s *slot) string {
	return l.folder(s.name) + l.id + "-" + strconv.FormatUint(s.series, 10) + "-" + strconv.Itoa(s.number)
}

// newID names a Locker, by 96 random bits. It is shorter than a UUID: etcd writes it with each request, and keeps it in each
// key and value.
func newID() string {
	var id [12]byte
	_, _ = rand.Read(id[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(id[:])
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

// value is what a key says to people: the hold, where its process runs, and since when it asks, in milliseconds of Unix
// time as the values in Redis say it.
func (l *Locker) value(hold string) string {
	return "relock/1|" + hold + "|" + l.process + "|" + strconv.FormatInt(time.Now().UnixMilli(), 10)
}

// holdOf is the hold that a value is of, or "".
func holdOf(value []byte) string {
	parts := strings.SplitN(string(value), "|", 3)
	if len(parts) < 3 || parts[0] != "relock/1" {
		return ""
	}
	return parts[1]
}
