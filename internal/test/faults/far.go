package faults

import (
	"context"
	"net"
	"sync/atomic"
	"time"
)

// FarNetwork is a network whose round trip takes a time, also below TLS. It
// counts connections.
type FarNetwork struct {
	Distance time.Duration

	dials, open, most atomic.Int64
}

// Dial connects after a round trip.
func (f *FarNetwork) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	f.dials.Add(1)
	for open := f.open.Add(1); ; {
		most := f.most.Load()
		if most >= open || f.most.CompareAndSwap(most, open) {
			break
		}
	}
	timer := time.NewTimer(f.Distance)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		f.open.Add(-1)
		return nil, ctx.Err()
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		f.open.Add(-1)
		return nil, err
	}
	return &farConn{Conn: conn, to: f}, nil
}

// Dials returns how many connections were asked for.
func (f *FarNetwork) Dials() int64 { return f.dials.Load() }

// Most returns how many connections were open or dialled together, at most.
func (f *FarNetwork) Most() int64 { return f.most.Load() }

// farConn delays what is sent. Each answer is later by that.
type farConn struct {
	net.Conn

	to     *FarNetwork
	closed atomic.Bool
}

func (c *farConn) Write(p []byte) (int, error) {
	time.Sleep(c.to.Distance)
	return c.Conn.Write(p)
}

func (c *farConn) Close() error {
	if c.closed.CompareAndSwap(false, true) {
		c.to.open.Add(-1)
	}
	return c.Conn.Close()
}
