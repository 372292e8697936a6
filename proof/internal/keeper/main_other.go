//go:build !linux

package main

// main does nothing on this system: the test that runs it is for Linux.
func main() {}
