package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const ms = int64(time.Millisecond)

// twoProcesses took turns: 0-2 ms, 3-5 ms, 5.5-7.5 ms, and then the second
// again at 9 ms, without a competitor.
func twoProcesses() []report {
	return []report{
		{Grants: [][]grant{{{0, 0, 2 * ms}, {2 * ms, 5*ms + ms/2, 7*ms + ms/2}}}},
		{Grants: [][]grant{{{1 * ms, 3 * ms, 5 * ms}, {8 * ms, 9 * ms, 10 * ms}}}},
	}
}

func TestGrantFigures(t *testing.T) {
	o := outcome{
		load: load{Processes: 2, Goroutines: 1}, reports: twoProcesses(), commands: 40, trip: 100 * time.Microsecond,
	}
	got, err := grantFigures(o)
	require.NoError(t, err)
	for name, want := range map[string]float64{
		perSecond:    400,     // 4 in 10 ms
		waitMax:      0.0035,  // asked at 2, got at 5.5
		evenness:     1,       // two each
		inUse:        0.7,     // 2 + 2 + 2 + 1 of 10 ms
		perGrant:     10,      //
		handOffTime:  0.00075, // 1 ms and 0.5 ms; the last one was asked for too late
		handOffP99:   0.001,   //
		handOffPings: 7.5,     //
		turns:        1,       // p99 of 3.5 ms by 2 x the mean hold of 1.75 ms
	} {
		require.InDelta(t, want, got[name], 1e-9, name)
	}
}

func TestGrantFiguresRefuseTwoHolders(t *testing.T) {
	reports := twoProcesses()
	reports[1].Grants[0][0].Got = 2*ms - 1
	_, err := grantFigures(outcome{reports: reports})
	require.ErrorIs(t, err, errMore)
}

func TestGrantFiguresOfNothing(t *testing.T) {
	f, err := grantFigures(outcome{reports: []report{{}, {}}})
	require.NoError(t, err)
	require.Error(t, f.check(busy.needed()...), "a run without any grant is no failure")
}

func TestCountFigures(t *testing.T) {
	got, err := countFigures(outcome{
		reports: []report{{Counts: []int64{10, 40, 50}, Time: time.Second / 2, Mallocs: 1000}},
	})
	require.NoError(t, err)
	for name, want := range map[string]float64{perSecond: 200, allocations: 10, slowest: 0.25} {
		require.Equal(t, want, got[name], name)
	}
}

func TestNestedFigures(t *testing.T) {
	got, err := nestedFigures(outcome{reports: []report{{
		Plain:  []time.Duration{90 * pairsInBlock, 180 * pairsInBlock, 150 * pairsInBlock},
		Outer:  []time.Duration{100 * pairsInBlock, 200 * pairsInBlock, 300 * pairsInBlock},
		Nested: []time.Duration{50 * pairsInBlock, 200 * pairsInBlock, 270 * pairsInBlock},
	}}})
	require.NoError(t, err)
	for name, want := range map[string]float64{outerPair: 200e-9, nestedPair: 200e-9, nestedShare: 0.9, byPlain: 0.9} {
		require.InEpsilon(t, want, got[name], 1e-7, name)
	}
}
