package locktest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/test/redistest"
)

// Privileges are what a Redis user needs, by docs/operations.md.
type Privileges struct {
	Least, Wait []string // the arguments of ACL, of a user that does not wait, and what is on top for one that does
	OnTop       []Privilege
	Cluster     []string // what a user of a Cluster needs on top
}

// Privilege is a row of the table of what is needed in addition.
type Privilege struct {
	Of       string   // the names in the first column
	Beside   []string // names of others, whose commands it needs too
	Commands []string
}

// ToWait stands for what waiting needs.
const ToWait = "waiting"

var (
	aclLine    = regexp.MustCompile(`(?m)^ACL (SETUSER .*)$`)
	clusterRow = regexp.MustCompile("(?m)^\\| `([+&].*)` \\| .* \\|$")
	aclRow     = regexp.MustCompile("(?m)^\\| (`.*) \\| (.*) \\|$")
	inCode     = regexp.MustCompile("`([^`]+)`")
	onCluster  = regexp.MustCompile("`(\\+cluster\\|[^`]+)`")
)

// ReadPrivileges reads the two commands of docs/operations.md and the table
// after them.
func ReadPrivileges(t testing.TB) (p Privileges) {
	t.Helper()
	text, lines := readACL(t, "docs/operations.md", 2)
	p.Least, p.Wait = strings.Fields(lines[0][1]), strings.Fields(lines[1][1])
	for _, row := range clusterRow.FindAllStringSubmatch(text, -1) {
		for _, rule := range strings.Split(row[1], "` or `") {
			p.Cluster = append(p.Cluster, strings.ReplaceAll(rule, `\|`, "|"))
		}
	}
	_, rest, _ := strings.Cut(text, lines[1][0])
	rest, _, _ = strings.Cut(rest, "\n## ")
	for _, row := range aclRow.FindAllStringSubmatch(rest, -1) {
		one := Privilege{Of: strings.Join(inBackquotes(row[1]), " ")}
		if strings.HasPrefix(one.Of, "fence.") {
			continue // keys, which TestPermissions of package fence tries
		}
		if strings.Contains(row[2], "what waiting needs") {
			one.Beside = append(one.Beside, ToWait)
		}
		for _, span := range inBackquotes(row[2]) {
			if strings.HasPrefix(span, "+") {
				one.Commands = append(one.Commands, strings.Fields(span)...)
			} else {
				one.Beside = append(one.Beside, span)
			}
		}
		p.OnTop = append(p.OnTop, one)
	}
	return p
}

// inBackquotes returns the texts between backquotes.
func inBackquotes(text string) (spans []string) {
	for _, found := range inCode.FindAllStringSubmatch(text, -1) {
		spans = append(spans, found[1])
	}
	return spans
}

// ReadCategories reads the one command of a README, which allows categories of
// commands, and what a user of a Cluster needs on top.
func ReadCategories(t testing.TB, file string) Privileges {
	t.Helper()
	text, lines := readACL(t, file, 1)
	p := Privileges{Least: strings.Fields(lines[0][1])}
	if found := onCluster.FindStringSubmatch(text); found != nil {
		p.Cluster = strings.Fields(found[1])
	}
	return p
}

// readACL reads a file and its commands that create a user.
func readACL(t testing.TB, file string, n int) (text string, lines [][]string) {
	t.Helper()
	read, err := os.ReadFile(fromRoot(t, file))
	require.NoError(t, err)
	lines = aclLine.FindAllStringSubmatch(string(read), -1)
	require.Len(t, lines, n, file)
	return string(read), lines
}

// Find returns the row of a name.
func (p Privileges) Find(t testing.TB, of string) Privilege {
	t.Helper()
	i := slices.IndexFunc(p.OnTop, func(one Privilege) bool { return one.Of == of })
	require.GreaterOrEqual(t, i, 0, "docs/operations.md does not say what %s needs", of)
	return p.OnTop[i]
}

// Besides returns the rules of a user that has everything but what a privilege
// adds.
func (p Privileges) Besides(t testing.TB, one Privilege) (rules []string) {
	t.Helper()
	for _, name := range one.Beside {
		if name == ToWait {
			rules = append(rules, p.Wait[2:]...)
			continue
		}
		other := p.Find(t, name)
		rules = append(append(rules, p.Besides(t, other)...), other.Commands...)
	}
	return rules
}

// Allow creates a user with the first command and more rules.
func (p Privileges) Allow(t testing.TB, s *redistest.Server, rules ...string) {
	t.Helper()
	s.Do(t, "ACL", "DELUSER", "app")
	s.Do(t, "ACL", redis.Args{}.AddFlat(p.Least)...)
	s.Do(t, "ACL", redis.Args{"SETUSER", "app"}.AddFlat(rules)...)
}

// Plus returns the rules that allow commands.
func Plus(commands []string) (rules []string) {
	for _, command := range commands {
		rules = append(rules, "+"+command)
	}
	return rules
}

// fromRoot returns the path of a file in the folder of go.work.
func fromRoot(t testing.TB, file string) string {
	t.Helper()
	for dir := "."; ; dir = filepath.Join("..", dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return filepath.Join(dir, file)
		}
		require.Less(t, len(dir), 30, "no go.work above")
	}
}

// LeastPrivilege are the commands that locks use, also in scripts. PING is only
// for [relock.Client.Ping]. AUTH is always allowed, and SELECT is needed with
// WithDatabase. docs/operations.md has the command that creates a user with
// them.
var LeastPrivilege = []string{
	"set", "get", "del", "exists", "pttl", "pexpire", "hmget", "hset", "hdel", "eval", "evalsha", "ping",
}

// RWCommands are what a Redis user needs for read/write locks, besides what
// waiting for other locks needs.
const RWCommands = "+zrangebyscore +zrevrangebyscore +zcount +zremrangebyscore"
