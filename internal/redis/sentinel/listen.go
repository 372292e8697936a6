package sentinel

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/redis/conns"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/redis/search"
)

// listening is the goroutine that subscribes to a sentinel. It is guarded by
// Sentinel.mu.
type listening struct {
	to   string      // the sentinel
	link driver.Link // to it; nil between two attempts
}

const (
	channel = "+switch-master"

	firstListenPause  = 10 * time.Millisecond
	maxListenPause    = time.Second
	deniedListenPause = 30 * time.Second
)

// listenTo moves the subscription to a sentinel, and starts the goroutine of it
// once; mu is held.
func (s *Sentinel) listenTo(sentinel string) {
	switch l := s.listening; {
	case l == nil:
		s.listening = &listening{to: sentinel}
		s.Tasks.Start(s.listen)
	case l.to != sentinel:
		if l.to = sentinel; l.link != nil {
			l.link.Close()
		}
	}
}

// listen subscribes until Close. Whenever the subscription is confirmed or
// lost, a look finds what was missed.
func (s *Sentinel) listen() {
	pause := firstListenPause
	for s.Life.Err() == nil {
		begun := time.Now()
		err := s.subscribe()
		switch {
		case errors.Is(err, errs.ErrDenied):
			pause = deniedListenPause
		case time.Since(begun) > maxListenPause:
			pause = firstListenPause
			search.Signal(s.now)
		default:
			search.Signal(s.Soon)
		}
		timer := time.NewTimer(pause + rand.N(pause))
		select {
		case <-timer.C:
		case <-s.Life.Done():
			timer.Stop()
		}
		pause = min(2*pause, maxListenPause)
	}
}

// subscribe listens to the present sentinel until the connection is closed.
func (s *Sentinel) subscribe() error {
	s.Mu.Lock()
	p := conns.NewPool(s.configOf(s.listening.to, s.limit))
	link := p.Link()
	s.listening.link = link
	s.Mu.Unlock()
	stop := context.AfterFunc(s.Life, link.Close)
	err := link.Subscribe(driver.OneChannel{
		Name: channel, OnConfirmed: func() { search.Signal(s.now) }, OnMessage: s.message,
	})
	stop()
	s.Mu.Lock()
	s.listening.link = nil
	s.Mu.Unlock()
	_ = p.Close() // its connection is closed already
	return err
}

// message takes one of "name old-host old-port new-host new-port".
func (s *Sentinel) message(text string) {
	if strings.HasPrefix(text, s.config.Name+" ") {
		s.switched()
	}
}
