package relock

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
)

// privileges are what a README says a Redis user needs.
type privileges struct {
	least, wait []string // the arguments of ACL, of a user that does not wait, and what is on top for one that does
	onTop       []privilege
}

// privilege is a row of the table of what is needed on top.
type privilege struct {
	of       string   // the names in the first column
	beside   []string // names of others, whose commands it needs too
	commands []string
}

// toWait stands for what waiting needs.
const toWait = "waiting"

var (
	aclLine = regexp.MustCompile(`(?m)^ACL (SETUSER .*)$`)
	aclRow  = regexp.MustCompile("(?m)^\\| (`.*) \\| (.*) \\|$")
	inCode  = regexp.MustCompile("`([^`]+)`")
)

// readPrivileges finds the two commands and the table after them. word is what the language calls waiting.
func readPrivileges(t testing.TB, file, word string) (p privileges) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	lines := aclLine.FindAllStringSubmatch(string(text), -1)
	require.Len(t, lines, 2, file)
	p.least, p.wait = strings.Fields(lines[0][1]), strings.Fields(lines[1][1])
	_, rest, _ := strings.Cut(string(text), lines[1][0])
	rest, _, _ = strings.Cut(rest, "\n## ")
	for _, row := range aclRow.FindAllStringSubmatch(rest, -1) {
		one := privilege{of: strings.Join(inBackquotes(row[1]), " ")}
		if strings.Contains(row[2], word) {
			one.beside = append(one.beside, toWait)
		}
		for _, span := range inBackquotes(row[2]) {
			if strings.HasPrefix(span, "+") {
				one.commands = append(one.commands, strings.Fields(span)...)
			} else {
				one.beside = append(one.beside, span)
			}
		}
		p.onTop = append(p.onTop, one)
	}
	return p
}

// inBackquotes is what stands between backquotes.
func inBackquotes(text string) (spans []string) {
	for _, found := range inCode.FindAllStringSubmatch(text, -1) {
		spans = append(spans, found[1])
	}
	return spans
}

func readmePrivileges(t testing.TB) privileges {
	t.Helper()
	return readPrivileges(t, "README.md", "what waiting needs")
}

// find is the row of a name.
func (p privileges) find(t testing.TB, of string) privilege {
	t.Helper()
	i := slices.IndexFunc(p.onTop, func(one privilege) bool { return one.of == of })
	require.GreaterOrEqual(t, i, 0, "the README does not say what %s needs", of)
	return p.onTop[i]
}

// besides is what a user may do who may not yet do what a privilege is about.
func (p privileges) besides(t testing.TB, one privilege) (rules []string) {
	t.Helper()
	for _, name := range one.beside {
		if name == toWait {
			rules = append(rules, p.wait[2:]...)
			continue
		}
		other := p.find(t, name)
		rules = append(append(rules, p.besides(t, other)...), other.commands...)
	}
	return rules
}

// allow makes a user with the command of the README and rules on top.
func (p privileges) allow(t testing.TB, s *redistest.Server, rules ...string) {
	t.Helper()
	s.Do(t, "ACL", "DELUSER", "app")
	s.Do(t, "ACL", redis.Args{}.AddFlat(p.least)...)
	s.Do(t, "ACL", redis.Args{"SETUSER", "app"}.AddFlat(rules)...)
}

// plus are commands as rules.
func plus(commands []string) (rules []string) {
	for _, command := range commands {
		rules = append(rules, "+"+command)
	}
	return rules
}

// What the READMEs promise is what the tests try.
func TestPrivilegesAreThoseOfTheReadme(t *testing.T) {
	t.Parallel()
	p := readmePrivileges(t)
	require.Equal(t, append(strings.Fields("SETUSER app on >password resetkeys ~relock:* -@all"), plus(leastPrivilege)...), p.least)
	require.Equal(t, append(strings.Fields("SETUSER app resetchannels &relock:*"), plus(waitPrivilege)...), p.wait)
	require.Equal(t, strings.Fields(rwCommands), p.find(t, "NewRWLock").commands)
	require.Equal(t, p, readPrivileges(t, "README.zh-CN.md", "等待所需的权限"))
	uses := privilegeUses()
	for _, one := range p.onTop {
		require.Contains(t, uses, one.of, "no test needs it")
		require.NotEmpty(t, append(one.beside, one.commands...), one.of)
	}
	require.Len(t, p.onTop, len(uses), "what the README does not name")
}

// What is needed on top is enough: nothing is denied. Without any one of it there is an error that says so.
func TestPrivilegesOnTop(t *testing.T) {
	t.Parallel()
	p := readmePrivileges(t)
	for of, use := range privilegeUses() {
		t.Run(of, func(t *testing.T) {
			t.Parallel()
			one := p.find(t, of)
			b := newPrivilegeBench(t, p, use)
			besides := p.besides(t, one)
			all := slices.Concat(besides, one.commands)
			require.NoError(t, b.try(all))
			b.requireNothingDenied()
			if len(one.commands) == 0 {
				b.requireDenied("what is beside it", nil)
			}
			for _, command := range one.commands {
				b.requireDenied(command, append(slices.Clone(all), "-"+strings.TrimPrefix(command, "+")))
			}
		})
	}
}

// Two of them together need what each does, and no more.
func TestPrivilegesTogether(t *testing.T) {
	t.Parallel()
	p := readmePrivileges(t)
	for name, tt := range map[string]struct {
		of  []string
		use privilegeUse
	}{
		"a MultiLock that waits": {[]string{toWait, "NewMultiLock"}, privilegeUse{use: waitForMany}},
		"a MultiLock, fenced":    {[]string{"WithFencing", "NewMultiLock"}, privilegeUse{use: takeAll(multiOf, WithFencing())}},
		"a RedLock that waits":   {[]string{toWait, "NewRedLock"}, privilegeUse{start: threeServers, use: waitForNodes}},
		"a RedLock, fenced":      {[]string{"WithFencing", "NewRedLock"}, privilegeUse{start: threeServers, use: takeAll(redOf, WithFencing())}},
		"an RWLock, fenced":      {[]string{"NewRWLock"}, privilegeUse{use: takeAll(rwOf, WithFencing())}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newPrivilegeBench(t, p, tt.use)
			require.NoError(t, b.try(p.besides(t, privilege{beside: tt.of})))
			b.requireNothingDenied()
		})
	}
}
