// Bench compares etcdlock with etcd's own package concurrency. It starts a
// server in its own process, which writes to the disk as usual:
//
//	go run -C etcd/test ./bench [-seconds 2] [-rounds 5] [-json]
//
// With -json it prints the figures of each round only, in seconds or per
// second. "make bench" does that.
//
// The rounds of all kinds alternate, and each kind is first at times. So a
// machine that is busy for a while is busy for all of them. No two use the same
// key.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/relock-go/relock/etcd/test/embedded"
)

func main() {
	seconds := flag.Float64("seconds", 2, "length of one round")
	rounds := flag.Int("rounds", 5, "how many rounds there are")
	asJSON := flag.Bool("json", false, "print the figures of each round as JSON")
	flag.Parse()
	b := bench{round: time.Duration(*seconds * float64(time.Second)), rounds: *rounds, out: os.Stdout, figures: figures{}}
	if *asJSON {
		b.out = io.Discard
	}
	err := b.run()
	if err == nil && *asJSON {
		err = json.NewEncoder(os.Stdout).Encode(b.figures)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// bench is one comparison.
type bench struct {
	server  string
	round   time.Duration
	rounds  int
	out     io.Writer // gets the tables
	figures figures
}

// figures are those of each round, by the name of a kind.
type figures map[string][]map[string]float64

func (f figures) add(kind string, round int, name string, value float64) {
	for len(f[kind]) <= round {
		f[kind] = append(f[kind], map[string]float64{})
	}
	f[kind][round][name] = value
}

func (b bench) printf(format string, args ...any) {
	_, _ = fmt.Fprintf(b.out, format, args...) // as fmt.Printf
}

func (b bench) run() error {
	server, stop, err := embedded.Start()
	if err != nil {
		return err
	}
	defer stop()
	b.server = server
	if err := b.pairs(1, "1 goroutine"); err != nil {
		return err
	}
	if err := b.pairs(64, "64 goroutines"); err != nil {
		return err
	}
	return b.handOffs()
}

// pairs prints how many lock-unlock pairs of an uncontended lock fit in a
// second.
func (b bench) pairs(goroutines int, crowd string) error {
	b.printf("\nlock and unlock, %s, a key each: pairs/s and ratios, medians of %d rounds\n", crowd, b.rounds)
	rates := map[string][]float64{}
	for n := range b.rounds {
		for _, kind := range turned(kinds, n) {
			pairs, err := inClients(b.server, 1, kind.make, func(ctx context.Context, all []locker) (int, error) {
				return countPairs(ctx, all[0], goroutines, b.round)
			})
			if err != nil {
				return fmt.Errorf("%s: %w", kind.name, err)
			}
			rate := float64(pairs) / b.round.Seconds()
			rates[kind.name] = append(rates[kind.name], rate)
			b.figures.add(kind.name, n, "pairs a second, "+crowd, rate)
		}
	}
	for _, kind := range kinds {
		of := rates[kind.name]
		b.printf("  %-20s %8.0f   %.2f x concurrency.Mutex   %.2f x two Puts\n",
			kind.name, median(of), ratio(of, rates[mutexName]), ratio(of, rates[putsName]))
	}
	return nil
}

// handOffs prints the time from an Unlock to the next Lock. 3 clients with 10
// goroutines each want one lock, and hold it for 5 ms.
func (b bench) handOffs() error {
	b.printf("\nfrom the call of Unlock to the return of the next Lock, 3 clients x 10 goroutines, hold 5ms, %d rounds\n",
		b.rounds)
	gaps := map[string][]time.Duration{}
	for n := range b.rounds {
		for _, kind := range turned(kinds, n) {
			if kind.pairsOnly {
				continue
			}
			_, err := inClients(b.server, 3, kind.make, func(ctx context.Context, all []locker) (int, error) {
				got, err := handOff(ctx, all, b.round)
				gaps[kind.name] = append(gaps[kind.name], got...)
				if slices.Sort(got); len(got) > 0 {
					b.figures.add(kind.name, n, "hand-off p50", at(got, 50).Seconds())
					b.figures.add(kind.name, n, "hand-off p99", at(got, 99).Seconds())
				}
				return len(got), err
			})
			if err != nil {
				return fmt.Errorf("%s: %w", kind.name, err)
			}
		}
	}
	for _, kind := range kinds {
		if all := gaps[kind.name]; len(all) > 0 {
			slices.Sort(all)
			b.printf("  %-20s p50 %8v   p99 %8v   most %8v   of %d\n", kind.name,
				at(all, 50).Round(10*time.Microsecond), at(all, 99).Round(10*time.Microsecond),
				all[len(all)-1].Round(10*time.Microsecond), len(all))
		}
	}
	return nil
}

// turned begins with another one each time.
func turned[T any](all []T, n int) []T {
	n %= len(all)
	return append(slices.Clone(all[n:]), all[:n]...)
}

func median(of []float64) float64 {
	sorted := slices.Sorted(slices.Values(of))
	return sorted[len(sorted)/2]
}

// ratio is the median of the ratios round by round, since a machine that gets
// slower does so for both.
func ratio(of, to []float64) float64 {
	ratios := make([]float64, len(of))
	for n := range of {
		ratios[n] = of[n] / to[n]
	}
	return median(ratios)
}

func at(of []time.Duration, percent int) time.Duration { return of[(len(of)-1)*percent/100] }

// inClients runs f with a locker on each of n clients.
func inClients(
	server string, n int, dial func(*clientv3.Client) (locker, error), f func(context.Context, []locker) (int, error),
) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var all []locker
	for range n {
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{server}, Logger: zap.NewNop()})
		if err != nil {
			return 0, err
		}
		defer func() { _ = client.Close() }()
		l, err := dial(client)
		if err != nil {
			return 0, err
		}
		defer l.close()
		all = append(all, l)
	}
	return f(ctx, all)
}
