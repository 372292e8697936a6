package main

import (
	"fmt"
	"regexp"
	"strings"
)

// condition is something in a script that is true or false: the condition of an
// if, or an operand of an "and" or "or" in it. The body of a function or loop
// counts as a condition that is true when it runs.
type condition struct {
	id   string // "acquire.lua:9" for a whole condition, "acquire.lua:9.2" for its second operand
	text string
	body bool
}

// marker starts the log line of a condition, before its id and value.
const marker = "relock-condition"

// prelude has no separate line, so that the lines of the script keep their
// numbers.
const prelude = `local function seen(id, value) ` +
	`if value then redis.log(redis.LOG_WARNING, '` + marker + ` ' .. id .. ' true') ` +
	`else redis.log(redis.LOG_WARNING, '` + marker + ` ' .. id .. ' false') end return value end `

var (
	ifLine       = regexp.MustCompile(`^(\s*)(if|elseif) (.*) then$`)
	functionLine = regexp.MustCompile(`^\s*local function \w+\(.*\)$`)
	forLine      = regexp.MustCompile(`^\s*for (.*) do$`)
	// hidden are the words that would make a branch outside of the lines above.
	hidden = regexp.MustCompile(`\b(if|elseif|then|and|or|function|while|for|repeat|until|goto)\b`)
)

// instrument returns a script that does the same, and logs the value of each of
// its conditions. A branch that it cannot log is an error. Each if, for and
// function must have its own line, and "and" and "or" are allowed only in
// conditions of ifs.
func instrument(name, source string) (string, []condition, error) {
	var all []condition
	lines := strings.Split(source, "\n")
	for i, line := range lines {
		at := fmt.Sprintf("%s:%d", name, i+1)
		changed, found, err := instrumentLine(at, line)
		if err != nil {
			return "", nil, fmt.Errorf("%s: %w: %s", at, err, line)
		}
		lines[i], all = changed, append(all, found...)
	}
	lines[0] = prelude + lines[0]
	return strings.Join(lines, "\n"), all, nil
}

func instrumentLine(at, line string) (string, []condition, error) {
	code := strings.TrimRight(blank(line), " ")
	switch {
	case ifLine.MatchString(code):
		m := ifLine.FindStringSubmatchIndex(code)
		e := expression{at: at}
		text := line[m[6]:m[7]]
		asked, err := e.whole(text)
		return line[:m[6]] + asked + line[m[7]:len(code)], e.found, err
	case functionLine.MatchString(code), forLine.MatchString(code) &&
		!hidden.MatchString(forLine.FindStringSubmatch(code)[1]):
		return line[:len(code)] + " " + seen(at, "true"), []condition{{id: at, text: strings.TrimSpace(line), body: true}},
			nil
	case hidden.MatchString(code):
		return "", nil, fmt.Errorf("%q makes a branch that cannot be seen here", hidden.FindString(code))
	}
	return line, nil, nil
}

func seen(id, text string) string { return "seen('" + id + "', " + text + ")" }

// blank removes the comment from a line and replaces quoted text by x, so that
// all words in it are code.
func blank(line string) string {
	out := []byte(line)
	quoted := false
	for i := range out {
		switch {
		case out[i] == '\'':
			quoted = !quoted
		case quoted:
			out[i] = 'x'
		case strings.HasPrefix(line[i:], "--"):
			return string(out[:i])
		}
	}
	return string(out)
}

type expression struct {
	at       string
	operands int
	found    []condition
}

// whole marks the condition, and its operands where it has several.
func (e *expression) whole(text string) (string, error) {
	e.found = append(e.found, condition{id: e.at, text: text})
	if !hidden.MatchString(blank(text)) {
		return seen(e.at, text), nil
	}
	marked, err := e.mark(text)
	return seen(e.at, marked), err
}

func (e *expression) mark(text string) (string, error) {
	var out strings.Builder
	for text != "" {
		operand, operator, rest := cut(text)
		marked, err := e.operand(operand)
		if err != nil {
			return "", err
		}
		out.WriteString(marked + operator)
		text = rest
	}
	return out.String(), nil
}

func (e *expression) operand(text string) (string, error) {
	if inner, ok := strings.CutPrefix(text, "not ("); ok && closes(inner) {
		marked, err := e.mark(inner[:len(inner)-1])
		return "not (" + marked + ")", err
	}
	if inner, ok := strings.CutPrefix(text, "("); ok && closes(inner) {
		marked, err := e.mark(inner[:len(inner)-1])
		return "(" + marked + ")", err
	}
	if hidden.MatchString(blank(text)) {
		return "", fmt.Errorf("%q has operands that cannot be seen", text)
	}
	e.operands++
	id := fmt.Sprintf("%s.%d", e.at, e.operands)
	e.found = append(e.found, condition{id: id, text: text})
	return seen(id, text), nil
}

// closes reports whether the last character of text closes the parenthesis
// before it.
func closes(text string) bool {
	depth := 1
	code := blank(text)
	for i := range len(code) {
		switch code[i] {
		case '(':
			depth++
		case ')':
			depth--
		}
		if depth == 0 {
			return i == len(code)-1
		}
	}
	return false
}

var operators = regexp.MustCompile(`^ (and|or) `)

// cut takes the first operand off, with the operator behind it.
func cut(text string) (operand, operator, rest string) {
	depth := 0
	code := blank(text)
	for i := range len(code) {
		switch code[i] {
		case '(':
			depth++
		case ')':
			depth--
		}
		if operator = operators.FindString(code[i:]); operator != "" && depth == 0 {
			return text[:i], operator, text[i+len(operator):]
		}
	}
	return text, "", ""
}
