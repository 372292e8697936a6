package etcdlock

import (
	"crypto/rand"
	"encoding/base64"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/relock-go/relock/utils"
)

// keys names the keys and holds of a Locker. Names of locks are escaped, so
// that no slash is left in them. So no two names share a key or a folder.
//
//	<prefix>lock/<name>/         the hold of an unfair lock
//	<prefix>lock/<name>/<slot>   a hold of a fair lock, or a waiter
//	<prefix>cancel/<hold>        a claim abandoned with an unanswered request
type keys struct {
	prefix  string
	id      string        // prefix of the names of its holds
	process string        // where it runs, in the form used in values
	count   atomic.Uint64 // of claims so far; each is named by it
}

// place is one claim in etcd, and the hold that it becomes.
type place struct {
	name  string // of the lock, as given by the caller
	key   string // in etcd
	slot  *slot  // names the key; nil if unfair
	hold  string // unique
	value string // names the hold; no other has it
}

// byValue returns the comparison that is true if the key is this hold's.
func (p *place) byValue() clientv3.Cmp { return clientv3.Compare(clientv3.Value(p.key), "=", p.value) }

// byRevision returns the comparison that is true if the key was created at rev.
func (p *place) byRevision(rev int64) clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(p.key), "=", rev)
}

// folder returns the prefix of all keys of a lock. As a key, it is the hold of
// an unfair lock. So one comparison, or one read, covers both kinds.
func (k *keys) folder(name string) string { return k.prefix + "lock/" + url.PathEscape(name) + "/" }

func (k *keys) cancelKey(hold string) string { return k.prefix + "cancel/" + hold }

// slotKey returns the key of a fair claim. No two Lockers share one. No two
// claims of a Locker have the same one at the same time.
func (k *keys) slotKey(s *slot) string {
	return k.folder(s.name) + k.id + "-" + strconv.FormatUint(s.series, 10) + "-" + strconv.Itoa(s.number)
}

// newID returns the name of a Locker, made of 96 random bits. etcd writes it
// with each request, and keeps it in each key and value. So it is shorter than
// a UUID.
func newID() string {
	var id [12]byte
	_, _ = rand.Read(id[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(id[:])
}

// nextHold returns a name for a hold that was never used before.
func (k *keys) nextHold() string { return k.id + "-" + strconv.FormatUint(k.count.Add(1), 10) }

// process returns where this process runs, in the form used in values.
func process() string {
	host, pid := utils.Process()
	return url.PathEscape(host) + "|" + strconv.Itoa(pid)
}

// value returns the value of a key, which people can read. It has the hold,
// where its process runs, and since when the claim exists. That is in
// milliseconds of Unix time, as in the values in Redis.
func (k *keys) value(hold string) string {
	return "relock/1|" + hold + "|" + k.process + "|" + strconv.FormatInt(time.Now().UnixMilli(), 10)
}

// holdOf returns the hold that a value names, or "" if it names none.
func holdOf(value []byte) string {
	parts := strings.SplitN(string(value), "|", 3)
	if len(parts) < 3 || parts[0] != "relock/1" {
		return ""
	}
	return parts[1]
}
