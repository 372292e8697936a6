package driver

import (
	"bytes"
	"errors"
	"io"
	"slices"

	"github.com/gomodule/redigo/redis"
)

// replies is what was read from a connection, and is not parsed yet. An answer
// is only parsed when it was read as a whole. So a read may be interrupted
// anywhere. Replies have the types that redigo gives them.
type replies struct {
	buffer []byte
	begin  int // of what is not parsed yet
	end    int
}

// minSpace is how much a read may return at least.
const minSpace = 512

// space returns where to read to.
func (r *replies) space() []byte {
	if r.begin == r.end {
		r.begin, r.end = 0, 0
	}
	if len(r.buffer)-r.end < minSpace {
		r.end = copy(r.buffer, r.buffer[r.begin:r.end])
		r.begin = 0
	}
	if len(r.buffer)-r.end < minSpace {
		r.buffer = slices.Grow(r.buffer, 4096)
		r.buffer = r.buffer[:cap(r.buffer)]
	}
	return r.buffer[r.end:]
}

// took notes that so many bytes were read to the space.
func (r *replies) took(n int) { r.end += n }

// parsed notes that an answer was parsed. It frees a large buffer that is
// empty.
func (r *replies) parsed() {
	if r.begin == r.end && len(r.buffer) > maxKept {
		r.buffer, r.begin, r.end = nil, 0, 0
	}
}

var errProtocol = errors.New("the server's answer is not in the protocol of Redis")

// next returns the next reply, which must be there as a whole. An error line is
// a reply too. After an error the connection cannot be used.
func (r *replies) next() (any, error) {
	line, err := r.line()
	if err != nil || len(line) == 0 {
		return nil, errProtocol
	}
	switch text := line[1:]; line[0] {
	case '+':
		return status(text), nil
	case '-':
		return redis.Error(text), nil
	case ':':
		return number(text)
	case '$':
		return r.bulk(text)
	case '*':
		return r.array(text)
	}
	return nil, errProtocol
}

// line returns the next line, without its end.
func (r *replies) line() ([]byte, error) {
	rest := r.buffer[r.begin:r.end]
	n := bytes.IndexByte(rest, '\n')
	if n < 1 || rest[n-1] != '\r' {
		return nil, errProtocol
	}
	r.begin += n + 1
	return rest[:n-1], nil
}

func status(text []byte) any {
	if string(text) == "OK" {
		return "OK" // costs no memory
	}
	return string(text)
}

func number(text []byte) (any, error) {
	digits, negative := bytes.CutPrefix(text, []byte("-"))
	n, err := digitsOf(digits)
	if negative {
		n = -n
	}
	if err != nil {
		return nil, err
	}
	return n, nil
}

func digitsOf(text []byte) (n int64, err error) {
	if len(text) == 0 {
		return 0, errProtocol
	}
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, errProtocol
		}
		n = n*10 + int64(c-'0')
	}
	return n, nil
}

// length returns the length of a string or an array. It is negative for none.
func length(text []byte) (int, error) {
	if string(text) == "-1" {
		return -1, nil
	}
	n, err := digitsOf(text)
	return int(n), err
}

func (r *replies) bulk(text []byte) (any, error) {
	n, err := length(text)
	if err != nil || n < 0 {
		return nil, err
	}
	if n > r.end-r.begin-len("\r\n") {
		return nil, errProtocol
	}
	value := bytes.Clone(r.buffer[r.begin : r.begin+n])
	if value == nil {
		value = []byte{}
	}
	r.begin += n
	if end, err := r.line(); err != nil || len(end) > 0 {
		return nil, errProtocol
	}
	return value, nil
}

func (r *replies) array(text []byte) (any, error) {
	n, err := length(text)
	if err != nil || n < 0 {
		return nil, err
	}
	if n > r.end-r.begin {
		return nil, errProtocol
	}
	values := make([]any, n)
	for i := range values {
		if values[i], err = r.next(); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// read reads more from a connection.
func (r *replies) read(from io.Reader) error {
	n, err := from.Read(r.space())
	r.took(n)
	if n > 0 {
		return nil // an error comes again
	}
	if err == nil {
		return io.ErrNoProgress
	}
	return err
}
