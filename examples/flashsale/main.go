// Flashsale sells ten phones to a hundred thousand buyers:
//
//	go run ./examples/flashsale [-buyers 100000]
//
// The buyers are in four processes. Each of them queues its order, and the
// processes sell to the first in line: one order at a time, in the order of
// arrival. Three processes are killed on the way (kill -9), and one freezes for
// longer than its lease. The program fails unless exactly ten phones are sold,
// to ten buyers. Its test compares them with the first orders in Redis's log.
//
// Read shop.go first, then stand.go and buyers.go: they are one process. The
// other files start the processes, cause the accidents, and watch.
//
// It needs redis-server on the PATH. With REDIS_URL (redis://, rediss:// or
// unix://) it uses the server named there.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"time"

	"github.com/relock-go/relock/internal/test/redistest"
)

const (
	phones    = 10
	processes = 4
	lease     = time.Second // of an order in work, and of the lock
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if role := os.Getenv(variable); role != "" {
		exit(work(ctx, os.Stdin, os.Stdout, role))
	}
	buyers := flag.Int("buyers", 100_000, "how many want a phone")
	flag.Parse()
	exit(run(ctx, os.Stdout, os.Getenv("REDIS_URL"), *buyers))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "flashsale:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// run holds the sale on the server at url, or on its own one if url is empty.
func run(ctx context.Context, out io.Writer, url string, buyers int) (err error) {
	if url == "" {
		server, stop, err := redistest.Launch()
		if err != nil {
			return err
		}
		defer stop()
		url = "unix://" + server.Address
	}
	r := role{URL: url, Run: "flashsale:" + rand.Text(), Buyers: buyers}
	s, err := newShop(r)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	return sell(ctx, out, r, s)
}

// sell opens the shop, holds the sale, and judges it.
func sell(ctx context.Context, out io.Writer, r role, s *shop) error {
	if err := s.open(ctx); err != nil {
		return err
	}
	d := newDirector(out, r)
	d.say("The sale: %d phones, %d buyers in %d processes.", phones, r.Buyers, processes)
	if err := d.direct(ctx, s); err != nil {
		return err
	}
	return judge(ctx, d, s)
}

// judge prints the buyers that have a phone. It returns an error if they are
// too few or too many, or if an order is left.
func judge(ctx context.Context, d *director, s *shop) error {
	left, sold, err := s.count(ctx)
	if err != nil {
		return err
	}
	waiting, err := s.line.Stats(ctx)
	if err != nil {
		return err
	}
	for i, buyer := range sold {
		d.say("phone %2d: %s", i+1, buyer)
	}
	switch {
	case len(sold) != phones || left != 0:
		return fmt.Errorf("%d phones are sold and %d are left, of %d", len(sold), left, phones)
	case len(slices.Compact(slices.Sorted(slices.Values(sold)))) != phones:
		return errors.New("a buyer has two phones")
	case waiting.Ready+waiting.Delayed+waiting.InFlight+waiting.Behind+waiting.Dead > 0:
		return fmt.Errorf("orders are left in the queue: %+v", waiting)
	}
	d.say("Seen: %d phones for %d buyers, each sold once.", phones, d.role.Buyers)
	return nil
}
