package redistest

import (
	"flag"
	"runtime"
	"strconv"
)

// Overlap lets more tests run in parallel than there are processors, since most
// of them wait. It changes nothing if the command line sets the number. A
// TestMain calls it.
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
}
