package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// scenario is one load for all libraries.
type scenario struct {
	name string
	load load
}

var scenarios = []scenario{
	{"busy", load{Processes: 4, Goroutines: 4, Hold: time.Millisecond}},
	{"think", load{Processes: 4, Goroutines: 4, Hold: time.Millisecond, Think: 5 * time.Millisecond}},
	{"hand-off", load{Processes: 2, Goroutines: 1, Hold: 2 * time.Millisecond}},
}

func main() {
	if text := os.Getenv(childVariable); text != "" {
		exitOn(child(text))
		return
	}
	libs := flag.String("libs", strings.Join(order, ","), "libraries to compare")
	runs := flag.Int("runs", 3, "runs, of which the median counts")
	duration := flag.Duration("duration", 5*time.Second, "length of one run")
	flag.Parse()
	for _, s := range scenarios {
		if flag.NArg() == 0 || slices.Contains(flag.Args(), s.name) {
			s.load.Duration = *duration
			exitOn(compare(s, strings.Split(*libs, ","), *runs))
		}
	}
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// compare runs a scenario with each library in turn, several times, and prints a table of the medians.
func compare(s scenario, libs []string, runs int) error {
	all := map[string][]figures{}
	var trips []time.Duration
	for range runs {
		for _, lib := range libs {
			f, trip, err := s.measure(lib)
			if err != nil {
				return err
			}
			all[lib], trips = append(all[lib], f), append(trips, trip)
		}
	}
	trip := percentile(trips, 50)
	fmt.Printf("\n### %s: %d processes x %d goroutines, one key, hold %v, think %v, %d runs of %v, PING %v\n\n", s.name,
		s.load.Processes, s.load.Goroutines, s.load.Hold, s.load.Think, runs, s.load.Duration, trip.Round(time.Microsecond))
	fmt.Println("| | ops/s | wait p50 / p99 / max ms | grants | in use | commands | hand-off | x PING |")
	fmt.Println("|---|---|---|---|---|---|---|---|")
	for _, lib := range libs {
		f := median(all[lib])
		fmt.Printf("| %s | %.0f | %s / %s / %s | %d - %d | %.2f | %.1f | %v | %.1f |\n", lib, f.opsPerSecond, ms(f.p50), ms(f.p99), ms(f.max),
			f.fewest, f.most, f.use, f.commands, f.handOff.Round(time.Microsecond), float64(f.handOff)/float64(trip))
	}
	return nil
}

// measure runs a scenario once, on a server of its own.
func (s scenario) measure(lib string) (figures, time.Duration, error) {
	srv, err := startServer()
	if err != nil {
		return figures{}, 0, err
	}
	defer srv.stop()
	trip, err := srv.roundTrip()
	if err != nil {
		return figures{}, 0, err
	}
	before, err := srv.commands()
	if err != nil {
		return figures{}, 0, err
	}
	l := s.load
	l.Library, l.Address = lib, srv.address
	results, err := run(l)
	if err != nil {
		return figures{}, 0, err
	}
	after, err := srv.commands()
	return figuresOf(results, after-before), trip, err
}

// median takes each figure from the run in the middle.
func median(all []figures) figures {
	slices.SortFunc(all, func(a, b figures) int { return int(a.p99 - b.p99) })
	return all[len(all)/2]
}

func ms(d time.Duration) string { return fmt.Sprintf("%.2f", float64(d)/float64(time.Millisecond)) }
