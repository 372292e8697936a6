package lua_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/redistest"
)

// Tasks runs scripts on one task queue of a real server. After each script,
// every task must be in one place.
type Tasks struct {
	*Bench
	Q string

	Damaged bool // others have deleted a part: it is no longer checked
}

// NewTasks returns a bench with an empty queue.
func NewTasks(t testing.TB, s *redistest.Server) *Tasks {
	b := NewQueue(t, s).Bench
	tasks := &Tasks{Bench: b, Q: strings.TrimSuffix(b.Key, "{k}") + "queue:{k}"}
	tasks.Flush()
	return tasks
}

// Flush deletes the queue.
func (b *Tasks) Flush() {
	b.Helper()
	keys, err := redis.Strings(b.Do("KEYS", b.Q+"*"), nil)
	require.NoError(b, err)
	for _, key := range keys {
		b.Do("DEL", key)
	}
}

// Key returns the key with this suffix.
func (b *Tasks) Key(suffix string) string { return b.Q + ":" + suffix }

// Try runs a script. receiver is only needed for a receive.
func (b *Tasks) Try(s *script.TaskScript, receiver string, args ...any) (any, error) {
	b.Helper()
	r := s.BySource(s.On(b.Q, receiver), args)
	reply, err := b.sender().Do(r.Cmd, r.Args...)
	b.requireWhole()
	return reply, err
}

// Ints runs a script whose reply is a number or a list of them.
func (b *Tasks) Ints(s *script.TaskScript, args ...any) []int64 {
	b.Helper()
	reply, err := b.Try(s, "", args...)
	require.NoError(b, err)
	if n, ok := reply.(int64); ok {
		return []int64{n}
	}
	all, err := redis.Int64s(reply, nil)
	require.NoError(b, err)
	return all
}

// requireWhole checks that each task is in one place, and that heads are not
// behind their keys.
func (b *Tasks) requireWhole() {
	b.Helper()
	if b.Damaged {
		return
	}
	ids, err := redis.Strings(b.Do("HKEYS", b.Key("p")), nil)
	require.NoError(b, err)
	places := map[string]int{}
	for _, suffix := range []string{"d", "s", "l", "z", "w", "b"} {
		for _, id := range b.IDs(suffix) {
			places[id]++
		}
	}
	for id := range b.Behind() {
		places[id]++
	}
	for _, id := range ids {
		require.Equal(b, 1, places[id], "places of %s", id)
		delete(places, id)
	}
	require.Empty(b, places, "without a record")
}

// Behind returns the tasks that are behind others. Their lists must be whole:
// each begins with a task in d, s, l or b, and ends with the last one of its
// key.
func (b *Tasks) Behind() map[string]bool {
	b.Helper()
	links, err := redis.StringMap(b.Do("HGETALL", b.Key("o")), nil)
	require.NoError(b, err)
	behind, ends := map[string]bool{}, map[string]string{}
	for before, link := range links {
		id := link[16:]
		require.False(b, behind[id], "%s is behind two", id)
		behind[id] = true
		require.Equal(b, before, b.place(id).before, "the task before %s", id)
	}
	for _, suffix := range []string{"d", "s", "l", "b"} {
		for _, id := range b.IDs(suffix) {
			record := b.place(id)
			if record.key == "" {
				continue
			}
			require.Empty(b, ends[record.key], "%s and another one are heads of %q", id, record.key)
			for links[id] != "" {
				id = links[id][16:]
				require.Equal(b, record.key, b.place(id).key, "the key of %s", id)
			}
			ends[record.key] = id
		}
	}
	lasts, err := redis.StringMap(b.Do("HGETALL", b.Key("k")), nil)
	require.NoError(b, err)
	require.Equal(b, ends, lasts, "the last ids of keys")
	return behind
}

// place is where a task is, by its record.
type place struct{ key, before string }

func (b *Tasks) place(id string) (p place) {
	b.Helper()
	record, _ := redis.String(b.Do("HGET", b.Key("p"), id), nil)
	if len(record) < 30 {
		return p
	}
	size, err := strconv.Atoi(record[24:27])
	require.NoError(b, err, "%s has not joined its key", id)
	p.before = record[27 : 27+size]
	record = record[27+size:]
	size, err = strconv.Atoi(record[:3])
	require.NoError(b, err)
	p.key = record[3 : 3+size]
	return p
}

// BehindTask returns the tasks behind a task, in their order.
func (b *Tasks) BehindTask(id string) (ids []string) {
	b.Helper()
	for {
		link, ok := b.Do("HGET", b.Key("o"), id).([]byte)
		if !ok {
			return ids
		}
		id = string(link[16:])
		ids = append(ids, id)
	}
}

// Members returns the members of a sorted set, in their order.
func (b *Tasks) Members(suffix string) []string {
	b.Helper()
	all, err := redis.Strings(b.Do("ZRANGE", b.Key(suffix), 0, -1), nil)
	require.NoError(b, err)
	return all
}

// IDs returns the ids of the tasks in a sorted set. Those behind locks and
// paused keys have their places and tickets before them.
func (b *Tasks) IDs(suffix string) []string {
	b.Helper()
	all := b.Members(suffix)
	if suffix != "b" {
		return all
	}
	for i, entry := range all {
		size, err := strconv.Atoi(strings.TrimPrefix(entry[:4], "k"))
		require.NoError(b, err)
		all[i] = entry[4+size+16:]
	}
	return all
}

// Score returns a score, or 0 if there is no such member.
func (b *Tasks) Score(suffix, id string) int64 {
	b.Helper()
	text, _ := b.Do("ZSCORE", b.Key(suffix), id).([]byte)
	n, _ := strconv.ParseInt(string(text), 10, 64)
	return n
}

// Body returns the body of a task with this key.
func Body(key string) string { return fmt.Sprintf("000%03d%s|the payload", len(key), key) }

// Nonce returns 8 bytes for the n-th call.
func Nonce(n int) string { return fmt.Sprintf("nonce%03d", n) }

// Enqueue puts tasks with one key, and requires that they are new.
func (b *Tasks) Enqueue(key string, ids ...string) {
	b.Helper()
	b.EnqueueIn(0, key, ids...)
}

// EnqueueIn is Enqueue with a delay.
func (b *Tasks) EnqueueIn(delay time.Duration, key string, ids ...string) {
	b.Helper()
	for i, answer := range b.Ints(script.TaskEnqueue, EnqueueOf(delay, key, ids...)...) {
		require.Equal(b, int64(1), answer, ids[i])
	}
}

// PutOf returns the arguments that put tasks without a key.
func PutOf(delay time.Duration, ids ...string) []any {
	args := []any{Nonce(0)}
	for _, id := range ids {
		args = append(args, id, delay.Milliseconds(), Body(""))
	}
	return args
}

// EnqueueOf returns the arguments that put tasks.
func EnqueueOf(delay time.Duration, key string, ids ...string) []any {
	args := []any{Nonce(0), 0}
	for _, id := range ids {
		args = append(args, id, delay.Milliseconds(), Body(key))
	}
	return args
}

// Receive is a receive of a receiver.
type Receive struct {
	Receiver  string
	N         int
	Heard     int  // the last one that was answered; the default is the one before
	Undo      bool // the one before was not answered
	Want      int
	Lease     time.Duration // the default is a minute
	Fatal     int           // interruptions of a dead letter; the default is 3
	Letters   int           // dead letters that are kept; the default is 10
	Age       time.Duration // for so long; the default is an hour
	Heartbeat int
	Busy      int    // 1: it takes no task that was interrupted
	Lock      string // whose tasks it takes
	Once      int    // 2: does not wait; 1: waits only if it gets nothing
	InFlight  int    // how many tasks may be in flight; the default is no limit
	Bytes     int    // of records; the default is 4 MiB
	Token     string // the default is Token
	Who       string // has what it takes
}

// Args returns the arguments of the script.
func (r Receive) Args() []any {
	heard := orDefault(r.Heard, r.N-1)
	if r.Undo {
		heard = r.N - 2
	}
	return []any{
		r.Receiver, r.N, heard, r.Want, orDefault(r.Lease, time.Minute).Milliseconds(),
		orDefault(r.Fatal, 3), orDefault(r.Letters, 10),
		orDefault(r.Age, time.Hour).Milliseconds(), fmt.Sprintf("%d%d", r.Heartbeat, 1-r.Busy), 2 - r.Once, r.InFlight,
		orDefault(r.Bytes, 4<<20), r.Lock, orDefault(r.Token, Token) + "/" + r.Who,
	}
}

func orDefault[T comparable](value, other T) T {
	var zero T
	if value == zero {
		return other
	}
	return value
}

// Delivery is one delivery in an answer.
type Delivery struct {
	ID      string
	Fence   int64
	Attempt string // and ~ and how many interruptions
	Record  string
}

// Token is the token of the receivers of tests.
const Token = "t0k3n"

// Name returns the fence with the token, which names the delivery.
func (d Delivery) Name() string { return fmt.Sprintf("%d@%s", d.Fence, Token) }

// Received is the answer to a receive.
type Received struct {
	Code, Next, Heard int64
	All               []Delivery
	Dead              []Delivery // with their keys as records
}

// IDs returns the ids of the deliveries.
func (r Received) IDs() []string {
	ids := []string{}
	for _, d := range r.All {
		ids = append(ids, d.ID)
	}
	return ids
}

// Receive runs a receive.
func (b *Tasks) Receive(r Receive) Received {
	b.Helper()
	values, err := redis.Values(b.Try(script.TaskReceive, r.Receiver, r.Args()...))
	require.NoError(b, err)
	var a Received
	values, err = redis.Scan(values, &a.Code, &a.Next, &a.Heard)
	require.NoError(b, err)
	for len(values) > 0 {
		var d Delivery
		values, err = redis.Scan(values, &d.ID, &d.Fence, &d.Attempt, &d.Record)
		require.NoError(b, err)
		if d.Fence == 0 {
			a.Dead = append(a.Dead, d)
			continue
		}
		a.All = append(a.All, d)
	}
	return a
}

// Settle settles one delivery, and returns the answer.
func (b *Tasks) Settle(d Delivery, verb string, argument any) int64 {
	b.Helper()
	return b.Ints(script.TaskSettle, SettleOf(0, d, verb, argument)...)[0]
}

// RequireSettled settles deliveries, and requires that each is still leased.
func (b *Tasks) RequireSettled(verb string, argument any, deliveries ...Delivery) {
	b.Helper()
	for _, d := range deliveries {
		require.Equal(b, int64(1), b.Settle(d, verb, argument), "%s %s", verb, d.ID)
	}
}

// SettleOf returns the arguments that settle one delivery. A done id is refused
// for the duration keep.
func SettleOf(keep time.Duration, d Delivery, verb string, argument any) []any {
	return []any{keep.Milliseconds(), 10, time.Hour.Milliseconds(), 0, d.ID, d.Name(), verb, argument}
}

// EndLease ends the lease of a task now.
func (b *Tasks) EndLease(id string) {
	b.Helper()
	b.Do("ZADD", b.Key("l"), "XX", b.Now()-1, id)
}
