// Command bench compares relock with other lock libraries for Redis, in one run on one machine, against a redis-server that it starts
// itself: lock libraries that wait by polling or by push, several processes, many goroutines.
//
//	go run . [-libs relock,redsync,...] [-runs 3] [-duration 5s] [scenario ...]
//
// It prints a Markdown table for each scenario.
package main
