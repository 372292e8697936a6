package faults

import (
	"net"
	"os"
	"time"
)

// Stall makes the proxy silent until Resume. Connections stay open and new ones
// are accepted, but nothing is forwarded in either direction. What was sent
// meanwhile arrives after Resume, even from clients that have closed their
// connection.
func (p *Proxy) Stall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.flowing:
		p.flowing = make(chan struct{})
	default: // stalled already
	}
}

// Resume ends Stall.
func (p *Proxy) Resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.flowing:
	default:
		close(p.flowing)
	}
}

// pass waits while the proxy is stalled, and reports whether the proxy still
// runs.
func (p *Proxy) pass() bool {
	p.mu.Lock()
	flowing := p.flowing
	p.mu.Unlock()
	return p.await(flowing)
}

// await waits until a gate is closed, and reports whether the proxy still runs.
// Without a gate, it does not wait.
func (p *Proxy) await(gate <-chan struct{}) bool {
	if gate == nil {
		return true
	}
	select {
	case <-gate:
		return true
	case <-p.done:
		return false
	}
}

// pause waits for d, and reports whether the proxy still runs.
func (p *Proxy) pause(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-p.done:
		return false
	}
}

// write sends all bytes together, or one by one over d in total.
func (p *Proxy) write(to net.Conn, raw []byte, d time.Duration) error {
	if d == 0 {
		_, err := to.Write(raw)
		return err
	}
	start := time.Now()
	for i := range raw {
		if !p.pause(time.Until(start.Add(d * time.Duration(i) / time.Duration(len(raw))))) {
			return net.ErrClosed
		}
		if _, err := to.Write(raw[i : i+1]); err != nil {
			return err
		}
	}
	return nil
}

// trickle sends the bytes at a rate, in small parts.
func (p *Proxy) trickle(to net.Conn, raw []byte, rate int) error {
	const part = 4 << 10
	start := time.Now()
	for i := 0; i < len(raw); i += part {
		if !p.pause(time.Until(start.Add(time.Second * time.Duration(i) / time.Duration(rate)))) {
			return net.ErrClosed
		}
		if _, err := to.Write(raw[i:min(i+part, len(raw))]); err != nil {
			return err
		}
	}
	return nil
}

// Say sends all clients the text, which they have not requested. No request may
// be under way.
func (p *Proxy) Say(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.open {
		_, _ = c.client.Write([]byte(text)) // the client may have closed
	}
}

// Refuse closes all connections and refuses new ones until Accept.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	listener := p.listener
	p.listener = nil
	p.mu.Unlock()
	if listener == nil {
		return
	}
	_ = listener.Close() // ends accept
	p.listening.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.open {
		c.cut()
	}
}

// Accept ends Refuse. The address stays the same.
func (p *Proxy) Accept() {
	p.tb.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		return
	}
	if p.Network == "unix" {
		_ = os.Remove(p.Address) // the previous listener leaves it, so that connections are refused
	}
	listener, err := net.Listen(p.Network, p.Address)
	if err != nil {
		p.tb.Fatalf("faults: %v", err)
	}
	if u, ok := listener.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false)
	} else if p.Address == "127.0.0.1:0" {
		p.Address = listener.Addr().String()
	}
	p.listener = listener
	p.listening.Go(func() { p.accept(listener) })
}

func (p *Proxy) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		server, err := p.dial()
		if err != nil {
			_ = client.Close() // because the server does not answer
			continue
		}
		p.join(client, server)
	}
}

// Redirect makes the proxy forward new connections to another server, of the
// same network. Old connections stay where they are, as behind a virtual IP or
// a DNS name.
func (p *Proxy) Redirect(address string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.server = address
}

func (p *Proxy) dial() (net.Conn, error) {
	p.mu.Lock()
	address := p.server
	p.mu.Unlock()
	return net.Dial(p.serverNetwork, address)
}

// join starts the goroutines of a connection.
func (p *Proxy) join(client, server net.Conn) {
	c := newPipe(p, client, server)
	p.mu.Lock()
	p.open[c] = struct{}{}
	p.mu.Unlock()
	p.pipes.Go(func() {
		c.run()
		p.mu.Lock()
		delete(p.open, c)
		p.mu.Unlock()
	})
}

func (p *Proxy) stop() {
	close(p.done)
	p.Refuse()
	p.mu.Lock()
	for c := range p.open {
		c.cut() // if Refuse came before
	}
	p.mu.Unlock()
	p.pipes.Wait()
}
