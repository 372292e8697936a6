package testbinary

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// PatchScript writes a copy of a test binary in which one Lua script is
// replaced. An embedded file is stored as it is, so this needs no build. If the
// new script is longer, the comment at its top makes room.
func PatchScript(binary, script, instead, patched string) error {
	program, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	if n := bytes.Count(program, []byte(script)); n != 1 {
		return fmt.Errorf("the script is %d times in %s", n, binary)
	}
	for len(instead) > len(script) {
		comment, rest, _ := strings.Cut(instead, "\n")
		if !strings.HasPrefix(comment, "--") {
			return errors.New("the changed script is too long")
		}
		instead = rest
	}
	instead += strings.Repeat("\n", len(script)-len(instead))
	program = bytes.Replace(program, []byte(script), []byte(instead), 1)
	return writeProgram(patched, program)
}

// writeProgram keeps other goroutines from starting a process meanwhile. The
// new process would briefly inherit the open file, and a program that is open
// for writing cannot be run.
func writeProgram(path string, program []byte) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(path, program, 0o700) //nolint:gosec // it is to be run
}
