// Command luacover reports which conditions of the Lua scripts were both true
// and false in the tests, and fails if one was not.
//
// It builds the tests of the packages that have scripts, with scripts that log
// the value of each condition. It runs the tests of scripts, and reads the logs
// of the servers.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/relock-go/relock/proof/internal/testbinary"
)

// suites are the packages with scripts, by their folders from the root. Their
// own tests see every condition.
var suites = []string{"lua", "fence"}

func main() {
	err := run()
	switch {
	case errors.Is(err, testbinary.ErrNoServer) && os.Getenv("CI") == "":
		fmt.Fprintln(os.Stderr, "skipped:", err)
	case err != nil:
		fmt.Fprintln(os.Stderr, "lua-cover:", err)
		os.Exit(1)
	}
}

func run() error {
	dir, err := os.MkdirTemp("", "luacover")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	env, err := testbinary.Environment("RELOCK_TEST_LOGS=" + dir)
	if err != nil {
		return err
	}
	root, err := testbinary.Root()
	if err != nil {
		return err
	}
	var all []condition
	for _, folder := range suites {
		found, err := runTests(root, folder, dir, env)
		if err != nil {
			return err
		}
		all = append(all, found...)
	}
	values, err := readLogs(dir)
	if err != nil {
		return err
	}
	return report(all, values)
}

// runTests runs the tests in a folder with instrumented scripts, and returns
// their conditions.
func runTests(root, folder, dir string, env []string) ([]condition, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	changed, all, err := instrumentAll(root, folder)
	if err != nil {
		return nil, err
	}
	own, err := os.MkdirTemp(dir, "suite")
	if err != nil {
		return nil, err
	}
	built, err := testbinary.Build(ctx, root, changed, own, "./"+folder)
	if err != nil {
		return nil, err
	}
	// Scripts that log are slower than a test of their cost allows.
	cmd := exec.CommandContext(ctx, built["./"+folder], "-test.skip", "CostLittle", "-test.parallel", "4",
		"-test.timeout", "150s")
	cmd.Dir, cmd.Env = filepath.Join(root, folder), env
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("the tests fail with instrumented scripts: %w\n%s", err, out)
	}
	return all, nil
}

// instrumentAll instruments the scripts in a folder, by their path from the
// root.
func instrumentAll(root, folder string) (changed map[string]string, all []condition, err error) {
	paths, err := filepath.Glob(filepath.Join(root, folder, "*.lua"))
	if err != nil {
		return nil, nil, err
	}
	if len(paths) == 0 {
		return nil, nil, fmt.Errorf("no scripts in %s of %s", folder, root)
	}
	changed = map[string]string{}
	for _, path := range paths {
		source, err := os.ReadFile(path)
		if err != nil {
			return nil, nil, err
		}
		name := filepath.Base(path)
		text, found, err := instrument(name, string(source))
		if err != nil {
			return nil, nil, err
		}
		changed[filepath.Join(folder, name)] = text
		all = append(all, found...)
	}
	return changed, all, nil
}

// value is one condition and one value that it had.
type value struct {
	id   string
	true bool
}

var logged = regexp.MustCompile(regexp.QuoteMeta(marker) + ` (\S+) (true|false)`)

func readLogs(dir string) (map[value]bool, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil {
		return nil, err
	}
	values := map[value]bool{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		for _, m := range logged.FindAllStringSubmatch(string(text), -1) {
			values[value{m[1], m[2] == "true"}] = true
		}
	}
	return values, nil
}

// report prints how many of the possible values of each script's conditions
// were seen, and fails if one was not.
func report(all []condition, values map[value]bool) error {
	var scripts, missing []string
	seen, total := map[string]int{}, map[string]int{}
	for _, c := range all {
		script, _, _ := strings.Cut(c.id, ":")
		if total[script] == 0 {
			scripts = append(scripts, script)
		}
		for _, want := range []bool{true, false} {
			if c.body && !want {
				continue
			}
			total[script]++
			if values[value{c.id, want}] {
				seen[script]++
			} else {
				missing = append(missing, fmt.Sprintf("%s: never %t: %s", c.id, want, c.text))
			}
		}
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	for _, script := range scripts {
		_, _ = fmt.Fprintf(table, "%s\t%d of %d branches\n", script, seen[script], total[script])
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if len(missing) > 0 {
		return fmt.Errorf("not reached by any test:\n%s", strings.Join(missing, "\n"))
	}
	return nil
}
