package wire

import (
	"io"
	"net"
	"slices"
	"time"
)

// wire is the net.Conn below a redigo connection. redigo writes requests to it
// and reads answers from it, but does no I/O: a read that fails inside redigo
// closes the connection, and so would each caller that leaves. Requests are
// collected until the user of the connection writes them, which costs one
// system call. An answer is collected too, and redigo reads it once all of it
// is there. So a wait that ends early loses nothing, and another goroutine can
// take the answer.
type wire struct {
	net.Conn          // the answers
	answers  *answers // what is read; with TLS, or the socket itself
	socket   *socket

	Out []byte // requests that are not written yet

	// Only for the reader.
	in         []byte
	begin, end int // of what redigo has not read yet
}

const (
	// minSpace is how much a read may return at least.
	minSpace = 512
	// MaxKept is how large a buffer may be that is kept.
	MaxKept = 64 << 10
)

// Write collects a part of a request.
func (w *wire) Write(p []byte) (int, error) {
	w.Out = append(w.Out, p...)
	return len(p), nil
}

// Read returns a part of an answer that was collected.
func (w *wire) Read(p []byte) (int, error) {
	n := copy(p, w.in[w.begin:w.end])
	w.begin += n
	if w.begin == w.end && len(w.in) > MaxKept {
		w.in, w.begin, w.end = nil, 0, 0
	}
	if n == 0 {
		return 0, errProtocol // whole by our count, and not by redigo's
	}
	return n, nil
}

// SetReadDeadline does nothing: a read waits for nothing. The user of the
// connection sets the deadline of its answers.
func (*wire) SetReadDeadline(time.Time) error { return nil }

// flush writes the requests that were collected.
func (w *wire) flush(deadline time.Time) error {
	if err := w.answers.SetWriteDeadline(deadline); err != nil {
		return err
	}
	_, err := w.answers.Write(w.Out)
	w.wrote()
	return err
}

// wrote notes that what was collected was written.
func (w *wire) wrote() {
	if w.Out = w.Out[:0]; cap(w.Out) > MaxKept {
		w.Out = nil
	}
}

// fill reads once, and collects what came.
func (w *wire) fill() error {
	n, err := w.answers.Read(w.space())
	w.end += n
	if n > 0 {
		return nil // an error comes again
	}
	if err == nil {
		return io.ErrNoProgress
	}
	return err
}

// exchange writes what was collected, and reads once, on a socket that can be
// waited on. It returns how much is not written, if that has failed.
func (w *wire) exchange() (unwritten int, err error) {
	defer w.wrote()
	space := w.space()
	written, n, err := w.socket.exchange(w.Out, space)
	if refused := w.answers.count(space[:n]); refused != nil {
		return len(w.Out) - written, refused
	}
	w.end += n
	rest := w.Out[written:]
	if err != nil || len(rest) == 0 {
		return len(rest), err
	}
	// The buffer of the socket is full. The deadline was set before:
	// setting it now could undo a wake.
	written, err = w.answers.Write(rest)
	return len(rest) - written, err
}

// space returns where to read to.
func (w *wire) space() []byte {
	if w.begin == w.end {
		w.begin, w.end = 0, 0
	}
	if len(w.in)-w.end < minSpace {
		w.end = copy(w.in, w.in[w.begin:w.end])
		w.begin = 0
	}
	if len(w.in)-w.end < minSpace {
		w.in = slices.Grow(w.in, 4096)
		w.in = w.in[:cap(w.in)]
	}
	return w.in[w.end:]
}

var _ net.Conn = (*wire)(nil)
