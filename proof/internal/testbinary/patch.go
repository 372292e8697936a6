package testbinary

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// PatchScript writes a copy of a test binary in which one Lua script stands for another. An embedded file is in the binary as it is, so
// this takes no build. The comment at the top of the script makes room where the new one is longer.
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

// writeProgram lets no other goroutine start a process meanwhile: that would have the open file for a moment, and a program that is open
// for writing cannot be run.
func writeProgram(path string, program []byte) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(path, program, 0o700) //nolint:gosec // it is to be run
}
