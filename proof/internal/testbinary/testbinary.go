// Package testbinary builds the tests of relock from changed sources, without
// changing a file.
package testbinary

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
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

// Build makes the test binaries of packages of the project in the folder dir,
// and returns their paths. A package is a folder from the root, such as "." or
// "./internal/x"; one of a nested module must be in go.work. No two may have
// the same last element.
//
// changed has sources by their path from the root, or by their whole path for
// those of the standard library. They replace the files of that name. The build
// is optimised to be ready soon, not to run fast. If it fails, the error has
// its output.
func Build(
	ctx context.Context, root string, changed map[string]string, dir string, packages ...string,
) (binaries map[string]string, err error) {
	list, err := overlay(root, changed, dir)
	if err != nil {
		return nil, err
	}
	output := dir + string(filepath.Separator)
	binaries = map[string]string{}
	for _, pkg := range packages {
		binaries[pkg] = filepath.Join(dir, path.Base(path.Join(module, pkg))+".test")
		if len(packages) == 1 { // also outside the project
			output = binaries[pkg]
		}
	}
	args := []string{"test", "-c", "-vet=off", "-gcflags=-l", "-ldflags=-s -w", "-overlay", list, "-o", output}
	cmd := exec.CommandContext(ctx, "go", append(args, packages...)...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	return binaries, nil
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

// Environment returns the environment of the tests. They start their servers
// themselves, and none is skipped for a missing tool.
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
