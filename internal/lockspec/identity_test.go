package lockspec

import (
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// The value has at most 512 bytes, whatever the host, the process and the
// label.
func TestLongestValue(t *testing.T) {
	t.Parallel()
	made, err := NewIdentity(false)
	require.NoError(t, err)
	fields := strings.Split(made.Process, "|")
	require.Len(t, fields, 5, `"|client|host|pid|"`)
	require.LessOrEqual(t, len(fields[2]), maxHost)
	longest := Identity{ID: made.ID, Process: "|" + made.ID + "|" + strings.Repeat("h", maxHost) + "|4194304000|"}
	label := Escape(strings.Repeat("|", 85)) + "x"
	require.Len(t, label, MaxLabel)
	value := longest.Value(uuid.NewString(), &Spec{Label: label})
	require.LessOrEqual(t, len(value), 512)
	require.LessOrEqual(t, len(longest.Info(label)), 512)

	kept := KeptValue(value)
	require.NotEqual(t, value, kept)
	require.Len(t, kept, len(value))
	require.True(t, strings.HasPrefix(kept, "relock/1|k|"))
	require.Equal(t, value[len("relock/1|p"):], kept[len("relock/1|k"):])
}

func TestEscape(t *testing.T) {
	t.Parallel()
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	for _, s := range []string{"", "a", "a|b", "a+b c", "%", "\r\n", string(all), "日本", "\xff"} {
		escaped := Escape(s)
		require.NotRegexp(t, `[^!-~]|\||\+`, escaped)
		for _, unescape := range []func(string) (string, error){url.PathUnescape, url.QueryUnescape} {
			back, err := unescape(escaped)
			require.NoError(t, err)
			require.Equal(t, s, back)
		}
	}
}
