package faults

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// maxBulk is the length of the longest bulk string that Redis accepts, 512 MB.
const maxBulk = 512 << 20

var errProtocol = errors.New("not RESP")

// readRequest reads one request, an array of bulk strings. It returns the
// request as it was sent, and its words.
func readRequest(r *bufio.Reader) (raw []byte, args []string, err error) {
	raw, n, err := readHeader(r, nil, '*')
	if err != nil {
		return nil, nil, err
	}
	if n < 1 {
		return nil, nil, fmt.Errorf("%w: request with %d words", errProtocol, n)
	}
	for range n {
		start, size := 0, 0
		if raw, size, err = readHeader(r, raw, '$'); err != nil {
			return nil, nil, err
		}
		start = len(raw)
		if raw, err = readBulk(r, raw, size); err != nil {
			return nil, nil, err
		}
		args = append(args, string(raw[start:start+size]))
	}
	return raw, args, nil
}

// readHeader reads a line that must begin with kind and has the length of what
// follows.
func readHeader(r *bufio.Reader, raw []byte, kind byte) ([]byte, int, error) {
	line, err := readLine(r)
	if err != nil {
		return nil, 0, err
	}
	n, err := length(line)
	if err != nil || line[0] != kind || n < 0 {
		return nil, 0, fmt.Errorf("%w: %q", errProtocol, line)
	}
	return append(raw, line...), n, nil
}

// readAnswer appends one reply to raw, including nested ones.
func readAnswer(r *bufio.Reader, raw []byte) ([]byte, error) {
	line, err := readLine(r)
	if err != nil {
		return nil, err
	}
	raw = append(raw, line...)
	switch line[0] {
	case '+', '-', ':':
		return raw, nil
	case '$', '*':
	default:
		return nil, fmt.Errorf("%w: %q", errProtocol, line)
	}
	n, err := length(line)
	if err != nil {
		return nil, err
	}
	if line[0] == '$' && n >= 0 {
		return readBulk(r, raw, n)
	}
	for i := 0; err == nil && line[0] == '*' && i < n; i++ {
		raw, err = readAnswer(r, raw)
	}
	return raw, err
}

// readLine reads a line up to CR LF, and includes both.
func readLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	if len(line) < 3 || line[len(line)-2] != '\r' {
		return nil, fmt.Errorf("%w: %q", errProtocol, line)
	}
	return line, nil
}

// readBulk appends size bytes and the CR LF after them.
func readBulk(r *bufio.Reader, raw []byte, size int) ([]byte, error) {
	start := len(raw)
	raw = append(raw, make([]byte, size+2)...)
	if _, err := io.ReadFull(r, raw[start:]); err != nil {
		return nil, err
	}
	if string(raw[start+size:]) != "\r\n" {
		return nil, fmt.Errorf("%w: bulk string without an end", errProtocol)
	}
	return raw, nil
}

// length returns the number in a header; -1 means nil.
func length(line []byte) (int, error) {
	n, err := strconv.Atoi(string(line[1 : len(line)-2]))
	if err != nil || n < -1 || n > maxBulk {
		return 0, fmt.Errorf("%w: %q", errProtocol, line)
	}
	return n, nil
}
