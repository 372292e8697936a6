package testbinary

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestPatchScript(t *testing.T) {
	dir := t.TempDir()
	binary, patched := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	require.NoError(t, os.WriteFile(binary, []byte("\x00ELF-- top\nreturn 1\x01twice twice"), 0o600))
	for _, tt := range []struct{ old, new, want string }{
		{"-- top\nreturn 1", "-- top\nreturn 2", "\x00ELF-- top\nreturn 2\x01twice twice"},
		{"-- top\nreturn 1", "-- top\nreturn", "\x00ELF-- top\nreturn\n\n\x01twice twice"},
		{"-- top\nreturn 1", "-- top\nreturn 1000", "\x00ELFreturn 1000\n\n\n\n\x01twice twice"},
	} {
		require.NoError(t, PatchScript(binary, tt.old, tt.new, patched))
		text, err := os.ReadFile(patched)
		require.NoError(t, err)
		require.Equal(t, tt.want, string(text))
	}
	require.Error(t, PatchScript(binary, "-- top\nreturn 1", "return 1 and then much more", patched), "no room")
	require.Error(t, PatchScript(binary, "twice", "x", patched))
	require.Error(t, PatchScript(binary, "never", "x", patched))
}

func TestRoot(t *testing.T) {
	root, err := Root()
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(root, "lua", "acquire.lua"))
}
