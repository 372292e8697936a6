package main

import "github.com/aclements/go-moremath/stats"

// percentile returns a percentile of the values, or NaN if there are none.
func percentile(values []float64, p float64) float64 {
	return stats.Sample{Xs: values}.Quantile(p / 100)
}

func median(values []float64) float64 { return percentile(values, 50) }

// advantage returns how many times better base is than other. Above 1 it is
// better.
func advantage(base, other float64, lessIsBetter bool) float64 {
	if lessIsBetter {
		return other / base
	}
	return base / other
}
