package faults

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// Event is what a helper process reports to the test.
type Event struct {
	At     int64 // Now of the process, before it was written
	Name   string
	Values []string
}

// Int returns a value as a number, or 0 if it is not a number.
func (e Event) Int(i int) int64 {
	n, _ := strconv.ParseInt(e.Values[i], 10, 64)
	return n
}

// oneWord replaces tabs and line breaks, because an event is a line of words
// between tabs.
var oneWord = strings.NewReplacer("\t", " ", "\n", " ", "\r", " ")

func formatEvent(at int64, name string, values []any) string {
	line := strconv.AppendInt(nil, at, 10)
	line = append(append(line, '\t'), name...)
	for _, v := range values {
		line = append(line, '\t')
		line = append(line, oneWord.Replace(fmt.Sprint(v))...)
	}
	return string(append(line, '\n'))
}

func parseEvent(line string) (Event, bool) {
	words := strings.Split(line, "\t")
	if len(words) < 2 {
		return Event{}, false
	}
	at, err := strconv.ParseInt(words[0], 10, 64)
	return Event{at, words[1], words[2:]}, err == nil
}

const clockMonotonic = 1 // of clock_gettime

// Now returns the time by CLOCK_MONOTONIC in nanoseconds. All processes of a
// machine share that clock.
func Now() int64 {
	var t syscall.Timespec
	_, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&t)), 0)
	if errno != 0 {
		panic(errno)
	}
	return t.Nano()
}

// stampError is how much earlier than its time a stamp may be.
const stampError = 50 * time.Microsecond

// Stamp converts a time with a monotonic reading to the clock of Now. The
// result is at most stampError early and never late: Stamp measures again if
// the process was interrupted during the measurement.
func Stamp(t time.Time) int64 {
	for {
		before := Now()
		left := time.Until(t)
		if after := Now(); after-before < int64(stampError) {
			return before + int64(left)
		}
	}
}
