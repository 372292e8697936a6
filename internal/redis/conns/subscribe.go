package conns

import (
	"fmt"
	"io"
	"sync"

	"github.com/gomodule/redigo/redis"

	"github.com/relock-go/relock/internal/redis/driver"
)

// feed is the subscription of a link. The goroutine of Subscribe reads, and one
// at a time writes.
type feed struct {
	link *poolLink
	conn redis.Conn

	mu      sync.Mutex
	unsent  []change
	asked   []change // without an answer, in the order of the requests
	writing bool
}

// change is a request to listen to a channel, or to ignore it.
type change struct {
	channel driver.Channel
	ignore  bool
}

func (c change) request() driver.Request {
	cmd := "SUBSCRIBE"
	switch {
	case c.channel.Sharded && c.ignore:
		cmd = "SUNSUBSCRIBE"
	case c.channel.Sharded:
		cmd = "SSUBSCRIBE"
	case c.ignore:
		cmd = "UNSUBSCRIBE"
	}
	return driver.Request{Cmd: cmd, Args: []any{c.channel.Name}}
}

// Subscribe listens to channels until the connection is closed, and returns the
// reason.
func (l *poolLink) Subscribe(to driver.Listener) error {
	conn, err := l.connect(0)
	if err != nil {
		return l.driver.orClosed(driver.Sanitize(err))
	}
	defer l.drop(conn)
	f := &feed{link: l, conn: conn}
	l.setFeed(f)
	defer l.setFeed(nil)
	begin := to.Open()
	for _, c := range begin {
		f.add(change{channel: c})
	}
	f.write()
	timeout := l.driver.commandTimeout
	if len(begin) == 0 {
		timeout = 0
	}
	for ; ; timeout = 0 {
		reply, err := redis.ReceiveWithTimeout(conn, timeout)
		if err := f.take(to, reply, err); err != nil {
			return l.driver.orClosed(driver.Sanitize(err))
		}
	}
}

func (l *poolLink) setFeed(f *feed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.feed = f
}

// Listen adds a channel to the subscription under way.
func (l *poolLink) Listen(c driver.Channel) { l.change(change{channel: c}) }

// Ignore ends the subscription to a channel.
func (l *poolLink) Ignore(c driver.Channel) { l.change(change{channel: c, ignore: true}) }

func (l *poolLink) change(c change) {
	l.mu.Lock()
	f := l.feed
	l.mu.Unlock()
	if f != nil && f.add(c) {
		l.driver.tasks.Start(f.write)
	}
}

// add notes a request, and reports whether its caller has to see that it is
// written.
func (f *feed) add(c change) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.unsent, f.asked = append(f.unsent, c), append(f.asked, c)
	return !f.writing
}

// write sends what is unsent, unless another goroutine does. A write that fails
// ends the connection.
func (f *feed) write() {
	for requests := f.takeUnsent(); len(requests) > 0; requests = f.takeUnsent() {
		err := sendAll(f.conn, requests)
		f.mu.Lock()
		f.writing = false
		f.mu.Unlock()
		if err != nil {
			f.link.drop(f.conn)
			return
		}
	}
}

// takeUnsent returns what its caller has to write.
func (f *feed) takeUnsent() (requests []driver.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.writing {
		return nil
	}
	for _, c := range f.unsent {
		requests = append(requests, c.request())
	}
	f.unsent, f.writing = nil, len(requests) > 0
	return requests
}

// take handles what the server has sent. It returns an error if the
// subscription has ended.
func (f *feed) take(to driver.Listener, reply any, err error) error {
	switch line, answered := driver.ErrorLine(err); {
	case answered && f.refuse(to, line):
		return nil
	case err != nil:
		return err
	}
	values, _ := redis.Values(reply, nil)
	if len(values) != 3 {
		return errBadMessage
	}
	kind, _ := redis.String(values[0], nil)
	if kind == "message" || kind == "smessage" {
		text, _ := redis.String(values[2], nil)
		to.Message(text)
		return nil
	}
	name, _ := redis.String(values[1], nil)
	c, ok := changeIn(kind, name)
	if !ok {
		return errBadMessage
	}
	f.change(to, c)
	return nil
}

// refuse handles an error line. It reports whether the subscription goes on: a
// refused channel that is sharded is the listener's matter.
func (f *feed) refuse(to driver.Listener, line redis.Error) (goesOn bool) {
	c, ok := f.answered()
	if !ok || !c.channel.Sharded {
		return false
	}
	refused := driver.Sanitize(line)
	if c.ignore {
		refused = nil
	}
	to.Lost(c.channel, refused)
	return true
}

// changeIn returns what a message of the server says about a channel, and
// reports whether it does.
func changeIn(kind, name string) (c change, ok bool) {
	c.channel.Name = name
	switch kind {
	case "subscribe":
	case "unsubscribe":
		c.ignore = true
	case "ssubscribe":
		c.channel.Sharded = true
	case "sunsubscribe":
		c.channel.Sharded, c.ignore = true, true
	default:
		return c, false
	}
	return c, true
}

// change handles the answer to a request, or the end of a channel whose slot
// has moved.
func (f *feed) change(to driver.Listener, c change) {
	f.resolve(c)
	if c.ignore {
		to.Lost(c.channel, nil)
	} else {
		to.Confirmed(c.channel)
	}
}

// answered removes the oldest request without an answer. Errors are answers,
// which do not name their channel.
func (f *feed) answered() (c change, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.asked) == 0 {
		return c, false
	}
	c = f.asked[0]
	f.asked = f.asked[1:]
	return c, true
}

// resolve removes a request if it is the oldest one without an answer. If not,
// the server has spoken by itself. If a slot moves while its channel is to be
// ignored, the end of the channel may be taken for the answer, and the error
// that follows for that to the next request. Then a channel counts as lost that
// is not, until it is confirmed.
func (f *feed) resolve(c change) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.asked) > 0 && f.asked[0] == c {
		f.asked = f.asked[1:]
	}
}

var errBadMessage = fmt.Errorf("%w: not a message of a subscription", io.ErrUnexpectedEOF)
