package main

import (
	"fmt"
	"math"

	"github.com/dustin/go-humanize"
)

// unit formats a figure for people.
type unit func(float64) string

// spread formats the median of some values, and the least and the most of them.
func spread(format unit, values []float64) string {
	text := format(median(values))
	if len(values) > 1 {
		text += " (" + format(percentile(values, 0)) + ".." + format(percentile(values, 100)) + ")"
	}
	return text
}

// count groups the digits of a whole number by thousands.
func count(v float64) string { return humanize.Comma(int64(math.Round(v))) }

func share(v float64) string { return fmt.Sprintf("%.2f", v) }

func one(v float64) string { return fmt.Sprintf("%.1f", v) }

// duration formats a time that is given in seconds.
func duration(v float64) string {
	switch {
	case v < 1e-3:
		return fmt.Sprintf("%.0f µs", v*1e6)
	case v < 10e-3:
		return fmt.Sprintf("%.2f ms", v*1e3)
	case v < 100e-3:
		return fmt.Sprintf("%.1f ms", v*1e3)
	}
	return fmt.Sprintf("%.0f ms", v*1e3)
}

// times formats a ratio, with as many digits as its precision justifies.
func times(v float64) string {
	switch {
	case v > 999:
		return ">999×"
	case v >= 9.95:
		return fmt.Sprintf("%.0f×", v)
	case v >= 1.995:
		return fmt.Sprintf("%.1f×", v)
	}
	return fmt.Sprintf("%.2f×", v)
}
