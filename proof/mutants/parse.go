package main

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// A mutant is a text that git apply takes. Before the diff it has the rule, the
// section that has the rule, and the test:
//
//	Rule: A release ends only the hold that it names.
//	See: docs/internals/protocol.md#plain-and-reentrant-locks
//	Test: lua TestLateCopiesOfScripts
var header = regexp.MustCompile(`^Rule: (.+\.)\nSee: (\S+)\nTest: (\S+) (\S+)\n\n` +
	`(?:diff --git .*\n)?(?:index .*\n)?--- a/(\S+)\n\+\+\+ b/(\S+)\n@@ .* @@.*\n`)

// parseMutant reads a mutant. Its diff is one hunk in one file. The numbers of
// lines in it are only for people and for git.
func parseMutant(text string) (m mutant, err error) {
	found := header.FindStringSubmatch(text)
	switch {
	case found == nil:
		return m, errors.New("does not begin with Rule:, See:, Test:, an empty line and a diff")
	case found[5] != found[6]:
		return m, errors.New("the diff renames a file")
	}
	m = mutant{rule: found[1], see: found[2], in: found[3], test: found[4], file: found[5]}
	if m.in == "." {
		m.in = ""
	}
	for line := range strings.Lines(text[len(found[0]):]) {
		kind, rest := line[0], line[1:]
		switch kind {
		case '\n': // an empty line, whose blank an editor has removed
			m.old, m.new = m.old+line, m.new+line
		case ' ':
			m.old, m.new = m.old+rest, m.new+rest
		case '-':
			m.old += rest
		case '+':
			m.new += rest
		default:
			return m, fmt.Errorf("no line of the one hunk: %s", line)
		}
	}
	if m.old == m.new || !strings.HasSuffix(m.old, "\n") || !strings.HasSuffix(m.new, "\n") {
		return m, errors.New("the hunk changes no whole lines")
	}
	return m, nil
}
