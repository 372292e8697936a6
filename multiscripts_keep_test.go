package relock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
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
		{"free ones", []string{"", "", plain3, ""}, 0, []int64{0, 3}, []string{plain1, plain1, plain3, ""}},
		{"nothing", []string{plain3, "", "", ""}, 0, []int64{0, 1}, []string{plain3, "", "", ""}},
		{"kept before", []string{kept, kept, plain3, ""}, 0, []int64{0, 3}, []string{plain1, plain1, plain3, ""}},
		{"the one that it was handed", []string{kept, handed, plain3, ""}, 2, []int64{0, 3}, []string{plain1, plain1, plain3, ""}},
		{"not the one that it was handed behind", []string{kept, plain3, handed, ""}, 3, []int64{0, 2, 1}, []string{plain1, plain3, "", ""}},
		{"kept ones behind are left to the caller", []string{"", plain3, kept, ""}, 0, []int64{0, 2}, []string{plain1, plain3, kept, ""}},
		{"nothing before another kind", []string{kept, handed, "text", ""}, 2, []int64{-1, 3, 1}, []string{kept, "", "text", ""}},
		{"all, for the hold", []string{kept, kept, handed, ""}, 3, []int64{1}, []string{plain1, plain1, plain1, plain1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newMultiScripts(t, s, 4)
			b.put(tt.before...)
			require.Equal(t, tt.want, b.acquireOrKeep(plain1, longLease, tt.own, handed, kept, wayKeep))
			require.Equal(t, tt.after, b.holds())
			for n, value := range tt.after {
				switch {
				case value != plain1:
				case tt.want[0] == 1:
					requireExpiry(t, longLease, b.left(n))
				default:
					requireExpiry(t, wayKeep, b.left(n))
				}
			}
		})
	}
}

// A late copy of a try that keeps keys shortens no lease of the hold that came
// of the same value, and takes nothing from the call's later tries.
func TestMultiScriptLateCopiesOfAKeep(t *testing.T) {
	b := newMultiScripts(t, redistest.Shared(t), 3)
	require.Equal(t, []int64{1}, b.acquireOrKeep(plain1, longLease, 0, "", "", wayKeep))
	b.do("SET", b.keys[2], plain3, "PX", scriptLease.Milliseconds())
	require.Equal(t, []int64{0, 3}, b.acquireOrKeep(plain1, longLease, 0, "", "", wayKeep))
	requireExpiry(t, longLease, b.left(0))
	requireExpiry(t, longLease, b.left(1))

	b.put("", "", plain3)
	require.Equal(t, []int64{0, 3}, b.acquireOrKeep(plain1, longLease, 0, "", "", wayKeep))
	b.do("DEL", b.keys[2])
	require.Equal(t, []int64{1}, b.acquireOrKeep(plain2, longLease, 0, "", plain1, wayKeep))
	require.Equal(t, []int64{0, 1}, b.acquireOrKeep(plain1, longLease, 0, "", "", wayKeep), "late")
	require.Equal(t, []string{plain2, plain2, plain2}, b.holds())
	requireExpiry(t, longLease, b.left(0))
}

// An empty string of another program is not taken for a key that is kept.
func TestMultiScriptLeavesAnEmptyString(t *testing.T) {
	b := newMultiScripts(t, redistest.Shared(t), 2)
	b.do("SET", b.keys[1], "")
	require.Equal(t, []int64{-1, 2}, b.acquireOrKeep(plain1, longLease, 0, "", "", wayKeep))
	require.Equal(t, int64(1), b.do("EXISTS", b.keys[0], b.keys[1]))
}
