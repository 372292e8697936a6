package lua_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/script"
)

// placeRow is a task in the answer of a look.
type placeRow struct {
	ID, Place, Score, Meta, Behind string

	Paused int
	Record string
}

// look reads tasks, and returns whether the queue is paused and how many were
// looked for.
func look(b *Tasks, size int, ids ...string) (rows []placeRow, paused, looked int) {
	b.Helper()
	args := []any{10, time.Hour.Milliseconds(), size}
	for _, id := range ids {
		args = append(args, id)
	}
	values, err := redis.Values(b.Try(script.TaskGet, "", args...))
	require.NoError(b, err)
	var now int64
	values, err = redis.Scan(values, &now, &paused, &looked)
	require.NoError(b, err)
	require.InDelta(b, b.Now(), now, slack)
	for len(values) > 0 {
		var r placeRow
		values, err = redis.Scan(values, &r.ID, &r.Place, &r.Score, &r.Meta, &r.Behind, &r.Paused, &r.Record)
		require.NoError(b, err)
		rows = append(rows, r)
	}
	return rows, paused, looked
}

// placesOf returns where tasks are, and what they are behind.
func placesOf(b *Tasks, ids ...string) []string {
	b.Helper()
	rows, _, _ := look(b, 1<<20, ids...)
	places := []string{}
	for _, r := range rows {
		require.Equal(b, b.Do("HGET", b.Key("p"), r.ID), []byte(r.Record))
		text := r.ID + " " + r.Place + r.Behind
		if r.Paused > 0 {
			text += " paused"
		}
		if r.Score != "" {
			require.Equal(b, fmt.Sprint(b.Score(r.Place, r.ID)), r.Score)
		}
		places = append(places, text)
	}
	return places
}

// list returns all ids in a place, page by page, and how many pages there were.
func list(b *Tasks, place string, half int) (ids []string, pages int) {
	b.Helper()
	ids = []string{}
	for first, second := "", ""; pages == 0 || first != ""; pages++ {
		page, err := redis.Strings(b.Try(script.TaskList, "", place, half, first, second))
		require.NoError(b, err)
		first, second = page[0], page[1]
		ids = append(ids, page[2:]...)
	}
	return ids, pages
}

// A task is found wherever it is.
func TestTaskGetScript(t *testing.T) {
	b := NewTasks(t, server)
	runsLonger(t)
	putBehind(b, 1, "lock: a/1", "", "locked")
	d := taken(b, "", 2, "dead", "flies")
	b.RequireSettled("d", "why", d[0])
	require.Equal(t, []string{"flies l"}, placesOf(b, "flies"), "nothing is paused")
	pause(b, "p")
	b.Enqueue("p", "head", "second")
	require.Empty(t, b.Receive(Receive{Receiver: "c3:1", N: 1, Want: 1}).All)
	pause(b, "due")
	b.Enqueue("due", "due")
	b.EnqueueIn(time.Minute, "p", "late")
	b.EnqueueIn(time.Minute, "", "later")
	ids := []string{"locked", "dead", "none", "flies", "head", "second", "due", "late", "later"}
	require.Equal(t, []string{
		"locked block: a/1", "dead z", "flies l", "head p paused", "second ohead paused",
		"due d paused", "late w paused", "later d",
	}, placesOf(b, ids...))
	rows, paused, looked := look(b, 1<<20, ids...)
	require.Equal(t, 0, paused)
	require.Equal(t, len(ids), looked)
	require.Regexp(t, `^1 \d{16}@t0k3n/ \d{16} $`, rows[2].Meta)
	pause(b, "")
	rows, paused, looked = look(b, 1, ids...)
	require.Equal(t, 1, paused)
	require.Equal(t, 1, looked)
	require.Len(t, rows, 1)
	resume(b, "")
	interrupt(b, Receive{N: 1}, "flies")
	b.Do("ZADD", b.Key("z"), "XX", b.Now()-3601_000_000, "dead")
	require.Equal(t, []string{"flies s"}, placesOf(b, "flies", "dead"), "too old a letter is not there")

	b.Damaged = true
	b.Do("HSET", b.Key("m"), "locked", "x")
	b.Do("DEL", b.Key("w"))
	b.Do("HSET", b.Key("p"), "broken", "x")
	require.Equal(t, []string{"locked ", "late  paused", "broken "}, placesOf(b, "locked", "late", "broken"))
	b.Do("HDEL", b.Key("o"), "head")
	require.Equal(t, []string{"second  paused"}, placesOf(b, "second"))
}

// The tasks of each place are listed page by page. One with the same score as
// another one comes once, also if the last one of a page goes.
func TestTaskListScript(t *testing.T) {
	b := NewTasks(t, server)
	b.Damaged = true // what is due has no keys here
	for _, half := range []int{0, 1} {
		ids, pages := list(b, "d", half)
		require.Empty(t, ids)
		require.Equal(t, 1, pages)
	}
	at := map[int]int64{0: b.Now() - 1000_000, 1: b.Now() + 1000_000_000}
	want := map[int][]string{}
	for half, score := range at {
		for i := range 150 { // of one score
			id := fmt.Sprintf("%d %03d", half, i)
			want[half] = append(want[half], id)
			b.Do("ZADD", b.Key("d"), score, id)
		}
		b.Do("ZADD", b.Key("d"), score-1, fmt.Sprint(half, " first"), score+1, fmt.Sprint(half, " last"))
		want[half] = append([]string{fmt.Sprint(half, " first")}, append(want[half], fmt.Sprint(half, " last"))...)
	}
	for half := range at {
		ids, pages := list(b, "d", half)
		require.Equal(t, want[half], ids)
		require.Greater(t, pages, 2)
	}
	page := func(first, second string) []string {
		all, err := redis.Strings(b.Try(script.TaskList, "", "d", 0, first, second))
		require.NoError(t, err)
		return all
	}
	first := page("", "")
	last := first[len(first)-1]
	require.Equal(t, []string{fmt.Sprint(at[0]), last}, first[:2])
	b.Do("ZREM", b.Key("d"), last)
	require.Equal(t, want[0][64], page(first[0], last)[2], "the one after it")
	require.Equal(t, "0 000", page(first[0], "0 ")[2], "a longer one is behind a shorter one")
	require.Equal(t, "0 000", page(first[0], "")[2])
	require.Equal(t, "0 001", page(first[0], "0 000")[2])
	require.Equal(t, "0 last", page(first[0], "0 zzz")[2], "none of that score")
	for _, place := range []string{"s", "w", "l", "z"} {
		b.Do("ZADD", b.Key(place), at[0], "past", at[1], "future")
	}
	for _, place := range []string{"s", "w", "l"} {
		for half, id := range []string{"past", "future"} {
			ids, _ := list(b, place, half)
			require.Equal(t, []string{id}, ids)
		}
	}
	ids, _ := list(b, "z", 0)
	require.Equal(t, []string{"past", "future"}, ids)
	ids, _ = list(b, "z", 1)
	require.Equal(t, []string{"past", "future"}, ids)
}

// Tasks behind locks, pauses and other tasks are listed, too.
func TestTaskListScriptBehind(t *testing.T) {
	b := NewTasks(t, server)
	var want []string
	for n := range 2 {
		ids := numbered(64)
		for i := range ids {
			ids[i] = fmt.Sprintf("%d of %d", i, n)
		}
		putBehind(b, n+1, fmt.Sprint("lock", n), "", ids...)
		want = append(want, ids...)
	}
	pause(b, "key")
	b.Enqueue("key", "head")
	require.Empty(t, b.Receive(Receive{Receiver: worker, N: 3, Want: 1}).All)
	ids, pages := list(b, "b", 0)
	require.Equal(t, append(want, "head"), ids)
	require.Equal(t, 3, pages)
	ids, pages = list(b, "o", 0)
	require.Empty(t, ids)
	require.Equal(t, 1, pages)
	behind := numbered(2000)
	for some := range slices.Chunk(behind, 500) {
		b.Enqueue("k", some...)
	}
	ids, pages = list(b, "o", 0)
	require.Greater(t, pages, 10)
	slices.Sort(ids)
	want = slices.Clone(behind[1:])
	slices.Sort(want)
	require.Equal(t, want, slices.Compact(ids))
}

// What is paused is listed page by page, with the queue itself.
func TestTaskListScriptPaused(t *testing.T) {
	b := NewTasks(t, server)
	some, pages := list(b, "v", 0)
	require.Empty(t, some)
	require.Equal(t, 1, pages)
	pause(b, "")
	want := map[string]string{"\x00": ""}
	for _, key := range numbered(1000) {
		b.Do("HSET", b.Key("v"), key, "since "+key)
		want[key] = "since " + key
	}
	want["\x00"], _ = redis.String(b.Do("HGET", b.Key("v"), "\x00"), nil)
	some, pages = list(b, "v", 0)
	require.Greater(t, pages, 5)
	got := map[string]string{}
	for pair := range slices.Chunk(some, 2) {
		got[pair[0]] = pair[1]
	}
	require.Equal(t, want, got)
}

func TestTaskLookScriptsArguments(t *testing.T) {
	b := NewTasks(t, server)
	refused := func(s *script.TaskScript, args ...any) {
		t.Helper()
		_, err := b.Try(s, "", args...)
		require.ErrorContains(t, err, "bad arguments", "%q", args)
	}
	many := make([]any, 68)
	for i := range many {
		many[i] = "1"
	}
	for _, args := range [][]any{{}, {1, 1, 1}, {"x", 1, 1, "a"}, {1, -1, 1, "a"}, {1, 1, 0, "a"}, many} {
		refused(script.TaskGet, args...)
	}
	for _, args := range [][]any{
		{},
		{"d", 0, ""},
		{"x", 0, "", ""},
		{"", 0, "", ""},
		{"dl", 0, "", ""},
		{"d", 2, "", ""},
		{"d", 0, "x", ""},
		{"o", 0, "x", ""},
		{"d", 0, "", "", ""},
		{"o", 0, "0", ""},
		{"v", 0, "x", ""},
		{strings.Repeat("d", 9), 1, "", ""},
	} {
		refused(script.TaskList, args...)
	}
}
