package faults

import (
	"bufio"
	"net"
	"slices"
	"strings"
	"sync"
)

// pipe is a client's connection and its connection to the server.
type pipe struct {
	proxy          *Proxy
	client, server net.Conn
	pending        chan answer   // the replies that the client is to get, in the order of its requests
	replies        chan []byte   // the server's replies
	gone           chan struct{} // closed when the server's connection has ended
	over           chan struct{} // closed when nothing more is sent to the client
	silent         bool          // no more replies are sent; used only by answerAll's goroutine
}

// answer describes what happens to the server's replies to one request.
type answer struct {
	action     Action
	rule       *rule
	subscribes bool // what follows are messages
}

// backlog is how many requests of a connection may be under way before the
// client must wait.
const backlog = 4096

func newPipe(p *Proxy, client, server net.Conn) *pipe {
	return &pipe{
		proxy: p, client: client, server: server,
		pending: make(chan answer, backlog), replies: make(chan []byte), gone: make(chan struct{}), over: make(chan struct{}),
	}
}

// run works until the client's or the server's connection has ended, and all
// that the client sent is executed.
func (c *pipe) run() {
	var group sync.WaitGroup
	group.Go(c.forwardRequests)
	group.Go(c.readReplies)
	c.answerAll()
	close(c.over)
	c.cut()
	group.Wait()
}

func (c *pipe) cut() {
	_ = c.client.Close()
	_ = c.server.Close()
}

// forwardRequests forwards the client's requests to the server until the
// client's connection ends.
func (c *pipe) forwardRequests() {
	defer close(c.pending)
	r := bufio.NewReader(c.client)
	for {
		raw, args, err := readRequest(r)
		if err != nil {
			return
		}
		action, rule := c.proxy.take(raw, args)
		if !c.forward(raw, answer{action, rule, strings.EqualFold(args[0], "SUBSCRIBE")}) {
			return
		}
	}
}

func (c *pipe) forward(raw []byte, a answer) bool {
	if !c.proxy.pause(a.action.requestDelay) || !c.proxy.await(a.action.requestGate) || !c.proxy.pass() {
		return false
	}
	select {
	case c.pending <- a:
	case <-c.over:
		return false
	}
	for range a.action.copies {
		if c.proxy.write(c.server, raw, a.action.requestTime) != nil {
			return false
		}
	}
	if a.action.halfRequest {
		_, _ = c.server.Write(raw[:len(raw)/2]) // the connection is closed next anyway
	}
	return !a.action.cut
}

func (c *pipe) readReplies() {
	defer close(c.gone)
	r := bufio.NewReader(c.server)
	for {
		raw, err := readAnswer(r, nil)
		if err != nil {
			return
		}
		select {
		case c.replies <- raw:
		case <-c.over:
			return
		}
	}
}

// answerAll replies to the client's requests. After the client's connection has
// ended, it continues until all requests are executed.
func (c *pipe) answerAll() {
	for {
		select {
		case a, ok := <-c.pending:
			if !ok || !c.answer(a) {
				return
			}
			if a.subscribes && a.action.copies > 0 {
				c.forwardMessages()
				return
			}
		case <-c.gone:
			return
		}
	}
}

// forwardMessages forwards the server's messages to a subscribed client until
// either connection ends. The reply to a later request counts as a message.
func (c *pipe) forwardMessages() {
	for {
		select {
		case raw := <-c.replies:
			if c.proxy.pass() && !c.silent {
				_ = c.proxy.write(c.client, raw, 0) // the client may have closed
			}
		case _, ok := <-c.pending:
			if !ok {
				return
			}
		case <-c.gone:
			return
		}
	}
}

// answer sends the client the reply to one request, and reports whether the
// connection stays open.
func (c *pipe) answer(a answer) bool {
	raw, ok := c.reply(a.action.copies)
	if !ok || !c.proxy.pause(a.action.answerDelay) || !c.proxy.await(a.action.answerGate) || !c.proxy.pass() {
		return false
	}
	if a.action.answer != "" {
		raw = []byte("-" + a.action.answer + "\r\n")
	}
	// After a lost reply, later ones are lost too. A stream has no holes, and a
	// client would take the next reply for the lost one.
	c.silent = c.silent || a.action.swallow
	if !c.silent && a.action.answerRate > 0 {
		_ = c.proxy.trickle(c.client, raw, a.action.answerRate) // the client may have closed
	} else if !c.silent {
		_ = c.proxy.write(c.client, a.action.given(raw), a.action.answerTime) // likewise
	}
	c.silent = c.silent || a.action.last
	if a.action.cut {
		c.closeClient(a.action.reset)
	}
	a.rule.complete()
	return !a.action.cut
}

// given returns the bytes of a reply that the client gets.
func (a Action) given(raw []byte) []byte {
	switch {
	case a.halfAnswer:
		return raw[:len(raw)/2]
	case a.cut:
		return nil
	case a.again:
		return slices.Concat(raw, raw)
	}
	return raw
}

func (c *pipe) closeClient(reset bool) {
	if conn, ok := c.client.(*net.TCPConn); ok && reset {
		_ = conn.SetLinger(0) // the close sends a reset
	}
	_ = c.client.Close()
}

// reply reads the server's replies to the copies of a request, and returns the
// first.
func (c *pipe) reply(copies int) (first []byte, ok bool) {
	for i := range copies {
		select {
		case raw := <-c.replies:
			if i == 0 {
				first = raw
			}
		case <-c.gone:
			return nil, false
		}
	}
	return first, true
}
