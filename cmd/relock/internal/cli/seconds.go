package cli

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// seconds is the value of a flag: a number of seconds as flock(1) and
// timeout(1) take it, or a duration such as 30s.
type seconds time.Duration

// longest is the longest lease that the library accepts.
const longest = 10 * 365 * 24 * time.Hour

// Set parses a number of seconds or a duration.
func (s *seconds) Set(text string) error {
	d, err := time.ParseDuration(text)
	if n, bad := strconv.ParseFloat(text, 64); bad == nil {
		d, err = time.Duration(min(n, 2*longest.Seconds())*float64(time.Second)), nil
		if math.IsNaN(n) {
			d = -1
		}
	}
	switch {
	case err != nil:
		return fmt.Errorf("%q is neither seconds nor a duration such as 30s", text)
	case d < 0 || d > longest:
		return fmt.Errorf("%q is not from 0 to %v", text, longest)
	}
	*s = seconds(d.Round(time.Millisecond))
	return nil
}

// String returns the duration, or what the help takes for no default.
func (s *seconds) String() string {
	if *s == 0 {
		return "0"
	}
	return time.Duration(*s).String()
}

// Type is what the help names the value.
func (s *seconds) Type() string { return "seconds" }
