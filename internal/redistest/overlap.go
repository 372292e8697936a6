package redistest

import (
	"flag"
	"runtime"
	"strconv"
)

// Overlap lets more tests run at once than there are processors, unless the command line says how many: most of them wait.
// A TestMain calls it.
func Overlap() {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		_ = flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0)))
	}
}
