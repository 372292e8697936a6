package main

import (
	"fmt"
	"net/url"
	"regexp"
	"sync"

	"github.com/gomodule/redigo/redis"
)

// door sees the buyers arrive: the order in which Redis executes what queues an
// order. It does not rely on the queue for that, but reads all commands of the
// server (MONITOR) until ten have arrived.
type door struct {
	conn  redis.Conn
	group sync.WaitGroup
	close func() []string // ends the watch; the first buyers in their order
	first []string
}

func watchDoor(r role) (*door, error) {
	conn, err := dial(r.url)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Do("MONITOR"); err != nil {
		return nil, fmt.Errorf("MONITOR: %w", err)
	}
	d := &door{conn: conn}
	d.close = sync.OnceValue(func() []string {
		_ = conn.Close()
		d.group.Wait()
		return d.first
	})
	d.group.Go(func() { d.watch(r.run) })
	return d, nil
}

func dial(rawURL string) (redis.Conn, error) {
	if u, err := url.Parse(rawURL); err == nil && u.Scheme == "unix" {
		return redis.Dial("unix", u.Path)
	}
	return redis.DialURL(rawURL)
}

// watch returns when ten have arrived, or the connection is closed. The first
// command of a buyer is the one that counts: a repeated order changes nothing.
func (d *door) watch(run string) {
	order := regexp.MustCompile(` lua\] "HSETNX" "` + run + `[^"]*:p" "(buyer-\d+)"`)
	seen := map[string]bool{}
	for len(d.first) < phones {
		line, err := redis.String(d.conn.Receive())
		if err != nil {
			return
		}
		if found := order.FindStringSubmatch(line); found != nil && !seen[found[1]] {
			seen[found[1]] = true
			d.first = append(d.first, found[1])
		}
	}
}
