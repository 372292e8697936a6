// Package matrix tests locks under faults: one fault in each operation, servers
// in trouble, failovers, and storms of calls.
package matrix
