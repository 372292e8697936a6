// Package display has what the command and the page show of a lock in the same
// way. What others have written drives no terminal, and turns no direction of
// writing.
package display

import (
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/relock-go/relock"
)

// Holders returns all holders of a lock.
func Holders(i relock.Info) []relock.Holder {
	if i.Holder != nil {
		return []relock.Holder{*i.Holder}
	}
	return i.Readers
}

// LongestWait returns the longest wait of those that are known.
func LongestWait(i relock.Info) (longest time.Duration) {
	for _, w := range i.Waiters {
		longest = max(longest, w.Age)
	}
	return longest
}

// Plain returns the text, quoted if it has what is not printable.
func Plain(text string) string {
	odd := func(r rune) bool { return !unicode.IsPrint(r) }
	if !utf8.ValidString(text) || strings.ContainsFunc(text, odd) {
		return strconv.Quote(text)
	}
	return text
}
