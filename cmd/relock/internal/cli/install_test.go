package cli

import (
	"archive/zip"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	rootModule = "github.com/relock-go/relock"
	ownModule  = rootModule + "/cmd/relock"
	anyVersion = "v0.1.0"
)

// publish adds a module to a proxy of modules in a folder.
func publish(t *testing.T, proxy, module, source string) {
	t.Helper()
	dir := filepath.Join(proxy, filepath.FromSlash(module), "@v")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	write := func(name string, text []byte) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	mod, err := os.ReadFile(filepath.Join(source, "go.mod"))
	require.NoError(t, err)
	write("list", []byte(anyVersion+"\n"))
	write(anyVersion+".mod", mod)
	write(anyVersion+".info", fmt.Appendf(nil, `{"Version":%q,"Time":"2020-01-01T00:00:00Z"}`, anyVersion))
	file, err := os.Create(filepath.Join(dir, anyVersion+".zip"))
	require.NoError(t, err)
	pack(t, file, module, source)
	require.NoError(t, file.Close())
}

// pack writes the sources of a module, without those of nested ones and without
// tests.
func pack(t *testing.T, file *os.File, module, source string) {
	t.Helper()
	archive := zip.NewWriter(file)
	require.NoError(t, filepath.WalkDir(source, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(path, source)
		if entry.IsDir() {
			_, nested := os.Stat(filepath.Join(path, "go.mod"))
			if name != "" && (nested == nil || strings.HasPrefix(entry.Name(), ".")) {
				return fs.SkipDir
			}
			return nil
		}
		packed := filepath.Base(path) == "go.mod" || filepath.Ext(path) == ".lua" ||
			filepath.Ext(path) == ".go" && !strings.HasSuffix(path, "_test.go")
		if !packed {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		to, err := archive.Create(module + "@" + anyVersion + filepath.ToSlash(name))
		if err != nil {
			return err
		}
		_, err = to.Write(text)
		return err
	}))
	require.NoError(t, archive.Close())
}

// The command can be installed by its path, which refuses a go.mod with a
// replace.
func TestInstall(t *testing.T) {
	t.Parallel()
	env := func(name string) string {
		out, err := exec.Command("go", "env", name).Output()
		require.NoError(t, err)
		return strings.TrimSpace(string(out))
	}
	dir := t.TempDir()
	proxy := filepath.Join(dir, "proxy")
	publish(t, proxy, rootModule, filepath.Join("..", "..", "..", ".."))
	publish(t, proxy, ownModule, filepath.Join("..", ".."))
	cache := filepath.Join(env("GOMODCACHE"), "cache", "download")
	cmd := exec.Command("go", "install", ownModule+"@"+anyVersion)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOPATH="+filepath.Join(dir, "go"),
		"GOMODCACHE="+filepath.Join(dir, "modules"), "GOBIN="+filepath.Join(dir, "bin"),
		"GOFLAGS=-modcacherw", "GOSUMDB=off", "GOPRIVATE=", "GONOPROXY=none",
		"GOPROXY=file://"+proxy+",file://"+cache+","+env("GOPROXY"))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	out, err = exec.Command(filepath.Join(dir, "bin", "relock"), "--version").Output()
	require.NoError(t, err)
	require.Equal(t, "relock version "+anyVersion+"\n", string(out))
}
