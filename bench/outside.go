package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
)

// program is a program of another module that measures, so that bench does not
// depend on what it needs.
type program struct{ module, folder string }

// run decodes what the program prints.
func (p program) run(result any, args ...string) error {
	cmd := exec.Command("go", append([]string{"run", "-C", p.module, p.folder}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%s: %w", p.folder, err)
	}
	return json.Unmarshal(out, result)
}

// elsewhere returns the figures of each run of a scenario that a program
// measures, by library.
func (s scenario) elsewhere(runs int) (map[string][]figures, error) {
	all, err := s.outside(s.load, runs)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	for library, measured := range all {
		for _, f := range measured {
			if err := f.check(s.needs...); err != nil {
				return nil, fmt.Errorf("%s: %s: %w", s.name, library, err)
			}
		}
	}
	return all, nil
}
