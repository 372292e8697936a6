package redistest

import (
	"flag"
	"runtime"
	"strconv"
)

// Overlap lets more tests run in parallel than there are processors, since most
// of them wait. The command line may set another number. More threads run Go
// code, too. With one for each processor, timers were late by up to 0.35 s on a
// busy machine: behind goroutines that compute, and behind the start of a
// server, which keeps a thread until the server runs. A TestMain calls it.
func Overlap() { overlap(2) }

// OverlapMore is Overlap for a package whose tests wait nearly all the time.
func OverlapMore() { overlap(4) }

func overlap(times int) {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		_ = flag.Set("test.parallel", strconv.Itoa(times*runtime.GOMAXPROCS(0)))
	}
	runtime.GOMAXPROCS(4 * runtime.GOMAXPROCS(0))
}
