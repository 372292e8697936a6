// Package testbinary builds the tests of relock from sources that are changed, without changing a file.
package testbinary

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const module = "github.com/relock-go/relock"

// Root returns the folder of the root module.
func Root() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return "", fmt.Errorf("go list -m %s: %w", module, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// Build makes the test binary of a package of the project ("." or "./internal/x", also of a nested module that is in go.work) in the folder dir. Changed are sources, by their
// path from the root or, in the standard library, by their whole path, that stand for the files of that name. It is built to be there soon, not to run fast. The output of a build that fails is in the error.
func Build(ctx context.Context, root, pkg string, changed map[string]string, dir string) (binary string, err error) {
	list, err := overlay(root, changed, dir)
	if err != nil {
		return "", err
	}
	binary = filepath.Join(dir, "relock.test")
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-gcflags=-l", "-ldflags=-s -w", "-overlay", list, "-o", binary, pkg)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return binary, nil
}

// overlay writes the changed sources, and the list of them that go build reads.
func overlay(root string, changed map[string]string, dir string) (list string, err error) {
	replace := map[string]string{}
	for name, source := range changed {
		stand := filepath.Join(dir, strings.ReplaceAll(filepath.ToSlash(name), "/", "_"))
		if err := os.WriteFile(stand, []byte(source), 0o600); err != nil {
			return "", err
		}
		if !filepath.IsAbs(name) {
			name = filepath.Join(root, name)
		}
		replace[name] = stand
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	list = filepath.Join(dir, "overlay.json")
	return list, os.WriteFile(list, text, 0o600)
}

// ErrNoServer says that there is no redis-server that the tests can start.
var ErrNoServer = errors.New("redis-server is not on PATH; install it: apt-get install redis-server")

// Environment is that of the tests: they start their servers themselves, and none of them is skipped for want of something.
func Environment(more ...string) ([]string, error) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		return nil, ErrNoServer
	}
	var env []string
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "RELOCK_TEST_") {
			env = append(env, entry)
		}
	}
	return append(append(env, "CI=true", "RELOCK_CELLS=all"), more...), nil
}
