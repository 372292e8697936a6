package main

var tables = []table{
	{
		title: "A key for each goroutine",
		text: "in one process: lock and unlock pairs a second, " +
			"and allocations of the process for a pair of one goroutine.",
		libraries: append(withPeers(ours, oursAnew, oursReentrant), redsyncAnew),
		columns: []column{
			{
				heading: "1 goroutine", scenario: distinct1.name, figure: perSecond,
				unit: count, main: true, plotted: "pairs/s, 1 goroutine",
			},
			{heading: "64", scenario: distinct64.name, figure: perSecond, unit: count, main: true},
			{
				heading: "256", scenario: distinct256.name, figure: perSecond,
				unit: count, main: true, plotted: "pairs/s, 256 goroutines, a key each",
			},
			{
				heading: "1,024", scenario: distinct1024.name, figure: perSecond,
				unit: count, main: true, plotted: "pairs/s, 1,024 goroutines, a key each",
			},
			{heading: "allocations", scenario: distinct1.name, figure: allocations, unit: count, less: true, main: true},
		},
	},
	{
		title:     "A key for each goroutine, over TLS:",
		text:      "the same.",
		libraries: tlsLibraries,
		columns: []column{
			{heading: "1 goroutine", scenario: encrypted1.name, figure: perSecond, unit: count, main: true},
			{heading: "64", scenario: encrypted64.name, figure: perSecond, unit: count, main: true},
			{heading: "allocations", scenario: encrypted1.name, figure: allocations, unit: count, less: true, main: true},
		},
	},
	{
		title: "One key for all:",
		text: "(1) 256 goroutines of one process that hold it for no time: locks a second, " +
			"and the slowest goroutine's share of the median one's. " +
			"(2) 4 processes with 4 goroutines each that hold it for 1 ms, repeatedly: how long a lock takes, and fairness: " +
			"fewest grants of any " +
			"goroutine, divided by the most. (3) as 2, with 5 ms between two locks of a goroutine: " +
			"share of the time in which the lock was held. " +
			"(4) two processes: from the call of Unlock in one to the return of Lock in the other, median.",
		libraries: withPeers(ours, oursFair),
		columns: []column{
			{heading: "(1) locks/s", scenario: oneKey.name, figure: perSecond, unit: count, main: true},
			{heading: "slowest", scenario: oneKey.name, figure: slowest, unit: share, main: true},
			{heading: "still waiting 3 s later", scenario: oneKey.name, figure: neverWoken, unit: count, less: true},
			{heading: "(2) wait p50", scenario: busy.name, figure: waitP50, unit: duration, less: true},
			{
				heading: "(2) wait p99", scenario: busy.name, figure: waitP99, unit: duration,
				less: true, main: true, plotted: "wait p99, 4 processes × 4, hold 1 ms",
			},
			{heading: "wait max", scenario: busy.name, figure: waitMax, unit: duration, less: true},
			{heading: "p99 by 16 × hold", scenario: busy.name, figure: turns, unit: share, less: true},
			{heading: "fewest by most", scenario: busy.name, figure: evenness, unit: share, main: true},
			{heading: "locks/s", scenario: busy.name, figure: perSecond, unit: count},
			{heading: "still waiting 3 s later", scenario: busy.name, figure: neverWoken, unit: count, less: true},
			{heading: "server commands a lock", scenario: busy.name, figure: perGrant, unit: one, less: true},
			{heading: "(3) time in use", scenario: think.name, figure: inUse, unit: share, main: true},
			{
				heading: "(4) hand-off", scenario: handOff.name, figure: handOffTime,
				unit: duration, less: true, main: true, plotted: "hand-off between two processes",
			},
			{heading: "hand-off p99", scenario: handOff.name, figure: handOffP99, unit: duration, less: true},
			{heading: "hand-off by PING", scenario: handOff.name, figure: handOffPings, unit: one, less: true},
		},
	},
	{
		title:     "One key for all, a new lock each time:",
		text:      "as (1), as a handler does.",
		libraries: append([]string{oursAnew}, remade...),
		columns: []column{
			{heading: "locks/s", scenario: oneKey.name, figure: perSecond, unit: count, main: true},
			{heading: "slowest", scenario: oneKey.name, figure: slowest, unit: share, main: true},
			{heading: "still waiting 3 s later", scenario: oneKey.name, figure: neverWoken, unit: count, less: true},
		},
	},
	{
		title: "Nested:",
		text: "re-entering a lock you hold, compared with taking a free one, and a free one with a plain lock. " +
			"None of the other libraries here is reentrant.",
		libraries: []string{oursReentrant},
		columns: []column{
			{heading: "outer pair", scenario: nested.name, figure: outerPair, unit: duration, less: true, main: true},
			{heading: "nested pair", scenario: nested.name, figure: nestedPair, unit: duration, less: true, main: true},
			{heading: "nested by outer", scenario: nested.name, figure: nestedShare, unit: share, less: true, main: true},
			{heading: "its rate by a plain pair's", scenario: nested.name, figure: byPlain, unit: share, main: true},
		},
	},
	{
		title: "Reentrant, one key for all:",
		text: "4 processes with 4 goroutines each that hold it for 1 ms, again and again, " +
			"beside a lock that is not reentrant.",
		libraries: []string{oursReentrant, ours},
		columns:   contended(reentrantKey),
	},
	{
		title:     "Quorum, one key for all:",
		text:      "2 processes with 2 goroutines each that hold it for 2 ms, again and again, on 3 servers.",
		libraries: []string{oursQuorum, redsyncQuorum},
		columns:   contended(quorum),
	},
	{
		title: "With a replica:",
		text: "64 goroutines with a key each: pairs a second that one replica has confirmed, " +
			"beside pairs that none has.",
		libraries: []string{oursReplicated, ours},
		columns:   []column{{heading: "pairs/s", scenario: replicated.name, figure: perSecond, unit: count}},
	},
	{
		title:     "Read locks:",
		text:      "pairs a second of goroutines of one process with a key each, and of 64 that read one key together.",
		libraries: []string{oursReading, handReading},
		columns:   uncontended(),
	},
	{
		title:     "Write locks:",
		text:      "the same of the goroutines that write. Those of one key wait for each other.",
		libraries: []string{oursWriting, handWriting},
		columns:   uncontended(),
	},
	{
		title: "A semaphore of 8 permits:",
		text: "pairs a second of goroutines with a semaphore each. " +
			"Then 64 of one process that hold a permit of one semaphore for 1 ms, again and again: " +
			"at most 8,000 a second, and the slowest goroutine's share of the median one's.",
		libraries: []string{oursPermits, oursPermitsFair, handPermits},
		columns: []column{
			{heading: "1 goroutine", scenario: distinct1.name, figure: perSecond, unit: count, main: true},
			{heading: "64", scenario: distinct64.name, figure: perSecond, unit: count, main: true},
			{heading: "permits/s", scenario: permits.name, figure: perSecond, unit: count, main: true},
			{heading: "slowest", scenario: permits.name, figure: slowest, unit: share, main: true},
			{heading: "still waiting 3 s later", scenario: permits.name, figure: neverWoken, unit: count, less: true},
		},
	},
	{
		title: "100,000 held locks",
		text: "of one process with a lease of 12 s: memory, goroutines, share of a processor, " +
			"and the cost of renewals by that of bare redigo.",
		libraries: []string{ours},
		columns: []column{
			{heading: "bytes each", scenario: held.name, figure: heapEach, unit: count, less: true, main: true},
			{heading: "goroutines", scenario: held.name, figure: moreGoroutines, unit: count, less: true, main: true},
			{heading: "processors", scenario: held.name, figure: processorShare, unit: share, less: true, main: true},
			{heading: "by bare redigo", scenario: held.name, figure: byBare, unit: share, less: true, main: true},
		},
	},
	{
		title: "On etcd:",
		text: "pairs a second with a key for each goroutine, and from the call of Unlock to the return of the next Lock, " +
			"with 3 clients of 10 goroutines that hold one lock for 5 ms.",
		libraries: onEtcd.libraries,
		columns: []column{
			{heading: "1 goroutine", scenario: onEtcd.name, figure: etcdPairs1, unit: count, main: true},
			{heading: "64", scenario: onEtcd.name, figure: etcdPairs64, unit: count, main: true},
			{heading: "hand-off p50", scenario: onEtcd.name, figure: etcdHandOff, unit: duration, less: true, main: true},
			{heading: "hand-off p99", scenario: onEtcd.name, figure: etcdHandP99, unit: duration, less: true, main: true},
		},
	},
}

// uncontended returns the columns of a read/write lock.
func uncontended() []column {
	return []column{
		{heading: "1 goroutine", scenario: distinct1.name, figure: perSecond, unit: count, main: true},
		{heading: "64", scenario: distinct64.name, figure: perSecond, unit: count, main: true},
		{heading: "64 of one key", scenario: shared64.name, figure: perSecond, unit: count, main: true},
	}
}

// contended returns the columns for a trace of one key that many goroutines
// want.
func contended(s scenario) []column {
	return []column{
		{heading: "locks/s", scenario: s.name, figure: perSecond, unit: count},
		{heading: "wait p99", scenario: s.name, figure: waitP99, unit: duration, less: true},
		{heading: "hand-off", scenario: s.name, figure: handOffTime, unit: duration, less: true},
		{heading: "server commands a lock", scenario: s.name, figure: perGrant, unit: one, less: true},
	}
}
