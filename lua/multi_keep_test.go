package lua_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/scripttest"
)

// wayKeep is how long keys are kept in these tests.
const wayKeep = 5 * time.Second

// A try that keeps keys keeps those before the first one that is held, under
// its own value. Nothing behind that one is taken.
func TestMultiScriptKeeps(t *testing.T) {
	s := redistest.Shared(t)
	const kept, handed = "relock/1|p|kept|c9|host|9|label|9", "relock/1|p|c9:1|c9|host|9|label|9"
	for _, tt := range []struct {
		name   string
		before []string
		own    int
		want   []int64
		after  []string
	}{
		{"free ones", []string{"", "", scripttest.Plain3, ""}, 0, []int64{0, 3}, []string{scripttest.Plain1, scripttest.Plain1, scripttest.Plain3, ""}},
		{"nothing", []string{scripttest.Plain3, "", "", ""}, 0, []int64{0, 1}, []string{scripttest.Plain3, "", "", ""}},
		{"kept before", []string{kept, kept, scripttest.Plain3, ""}, 0, []int64{0, 3}, []string{scripttest.Plain1, scripttest.Plain1, scripttest.Plain3, ""}},
		{"the one that it was handed", []string{kept, handed, scripttest.Plain3, ""}, 2, []int64{0, 3}, []string{scripttest.Plain1, scripttest.Plain1, scripttest.Plain3, ""}},
		{"not the one that it was handed behind", []string{kept, scripttest.Plain3, handed, ""}, 3, []int64{0, 2, 1}, []string{scripttest.Plain1, scripttest.Plain3, "", ""}},
		{"kept ones behind are left to the caller", []string{"", scripttest.Plain3, kept, ""}, 0, []int64{0, 2}, []string{scripttest.Plain1, scripttest.Plain3, kept, ""}},
		{"nothing before another kind", []string{kept, handed, "text", ""}, 2, []int64{-1, 3, 1}, []string{kept, "", "text", ""}},
		{"all, for the hold", []string{kept, kept, handed, ""}, 3, []int64{1}, []string{scripttest.Plain1, scripttest.Plain1, scripttest.Plain1, scripttest.Plain1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := scripttest.NewMulti(t, s, 4)
			b.Put(tt.before...)
			require.Equal(t, tt.want, b.AcquireOrKeep(scripttest.Plain1, scripttest.LongLease, tt.own, handed, kept, wayKeep))
			require.Equal(t, tt.after, b.Holds())
			for n, value := range tt.after {
				switch {
				case value != scripttest.Plain1:
				case tt.want[0] == 1:
					scripttest.RequireExpiry(t, scripttest.LongLease, b.Left(n))
				default:
					scripttest.RequireExpiry(t, wayKeep, b.Left(n))
				}
			}
		})
	}
}

// A late copy of a try that keeps keys shortens no lease of the hold that came
// of the same value, and takes nothing from the call's later tries.
func TestMultiScriptLateCopiesOfAKeep(t *testing.T) {
	b := scripttest.NewMulti(t, redistest.Shared(t), 3)
	require.Equal(t, []int64{1}, b.AcquireOrKeep(scripttest.Plain1, scripttest.LongLease, 0, "", "", wayKeep))
	b.Do("SET", b.Keys[2], scripttest.Plain3, "PX", scripttest.Lease.Milliseconds())
	require.Equal(t, []int64{0, 3}, b.AcquireOrKeep(scripttest.Plain1, scripttest.LongLease, 0, "", "", wayKeep))
	scripttest.RequireExpiry(t, scripttest.LongLease, b.Left(0))
	scripttest.RequireExpiry(t, scripttest.LongLease, b.Left(1))

	b.Put("", "", scripttest.Plain3)
	require.Equal(t, []int64{0, 3}, b.AcquireOrKeep(scripttest.Plain1, scripttest.LongLease, 0, "", "", wayKeep))
	b.Do("DEL", b.Keys[2])
	require.Equal(t, []int64{1}, b.AcquireOrKeep(scripttest.Plain2, scripttest.LongLease, 0, "", scripttest.Plain1, wayKeep))
	require.Equal(t, []int64{0, 1}, b.AcquireOrKeep(scripttest.Plain1, scripttest.LongLease, 0, "", "", wayKeep), "late")
	require.Equal(t, []string{scripttest.Plain2, scripttest.Plain2, scripttest.Plain2}, b.Holds())
	scripttest.RequireExpiry(t, scripttest.LongLease, b.Left(0))
}

// An empty string of another program is not taken for a key that is kept.
func TestMultiScriptLeavesAnEmptyString(t *testing.T) {
	b := scripttest.NewMulti(t, redistest.Shared(t), 2)
	b.Do("SET", b.Keys[1], "")
	require.Equal(t, []int64{-1, 2}, b.AcquireOrKeep(scripttest.Plain1, scripttest.LongLease, 0, "", "", wayKeep))
	require.Equal(t, int64(1), b.Do("EXISTS", b.Keys[0], b.Keys[1]))
}
