package main

import (
	"math"
	"slices"
)

// percentile returns a percentile of the values, or NaN if there are none.
func percentile(values []float64, p int) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(len(sorted)*p/100, len(sorted)-1)]
}

// median returns NaN if there are no values. Of an even number it returns the
// mean of the two in the middle.
func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

func sum(values []float64) (total float64) {
	for _, v := range values {
		total += v
	}
	return total
}

func mean(values []float64) float64 { return sum(values) / float64(len(values)) }

// advantage returns how many times better base is than other. Above 1 it is
// better.
func advantage(base, other float64, lessIsBetter bool) float64 {
	if lessIsBetter {
		return other / base
	}
	return base / other
}
