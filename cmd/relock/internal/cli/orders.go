package cli

import (
	"encoding/binary"
	"io"
)

// An order is a message of relock to its guard. A positive one is the time by
// the boot clock until which the hold is valid. A negative one is a signal for
// the command.
type order int64

// lost is the order to end the command immediately.
const lost order = 0

// A guard reports the number of the command's process, which is positive. At
// last it reports the exit code, negated, or that the command was ended, or not
// started, since the lock was no longer held. A guard without a last report has
// crashed, whatever its own exit code.
const ended = -256

// writeNumber writes a message of a pipe, which is 8 bytes. The kernel writes
// them together or not at all.
func writeNumber(to io.Writer, n int64) error {
	_, err := to.Write(binary.LittleEndian.AppendUint64(nil, uint64(n)))
	return err
}

// readNumber reads a message of a pipe.
func readNumber(from io.Reader) (int64, error) {
	var raw [8]byte
	_, err := io.ReadFull(from, raw[:])
	return int64(binary.LittleEndian.Uint64(raw[:])), err
}
