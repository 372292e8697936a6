package acquire_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
)

// The tests try what the READMEs promise.
func TestPrivilegesAreThoseOfTheReadme(t *testing.T) {
	t.Parallel()
	p := locktest.ReadmePrivileges(t)
	require.Equal(t, append(strings.Fields("SETUSER app on >password resetkeys ~relock:* -@all"), locktest.Plus(locktest.LeastPrivilege)...), p.Least)
	require.Equal(t, append(strings.Fields("SETUSER app resetchannels &relock:*"), locktest.Plus(waitPrivilege)...), p.Wait)
	require.Equal(t, strings.Fields(locktest.RWCommands), p.Find(t, "NewRWLock").Commands)
	require.Equal(t, p, locktest.ReadPrivileges(t, "README.zh-CN.md", "等待所需的权限"))
	uses := privilegeUses()
	for _, one := range p.OnTop {
		require.Contains(t, uses, one.Of, "no test needs it")
		require.NotEmpty(t, append(one.Beside, one.Commands...), one.Of)
	}
	require.Len(t, p.OnTop, len(uses), "the README does not name them all")
}

// What a feature needs on top is enough: nothing is denied. Without any one of
// it, an error names what is missing.
func TestPrivilegesOnTop(t *testing.T) {
	t.Parallel()
	p := locktest.ReadmePrivileges(t)
	for of, use := range privilegeUses() {
		t.Run(of, func(t *testing.T) {
			t.Parallel()
			one := p.Find(t, of)
			b := newPrivilegeBench(t, use)
			all := slices.Concat(p.Besides(t, one), one.Commands)
			require.NoError(t, b.try(all))
			b.requireNothingDenied()
			if len(one.Commands) == 0 {
				b.requireDenied("what is beside it", nil)
			}
			for _, command := range one.Commands {
				b.requireDenied(command, append(slices.Clone(all), "-"+strings.TrimPrefix(command, "+")))
			}
		})
	}
}

// Two features together need what each needs, and no more.
func TestPrivilegesTogether(t *testing.T) {
	t.Parallel()
	fenced := relock.WithFencing()
	for name, tt := range map[string]struct {
		of  []string
		use privilegeUse
	}{
		"a MultiLock that waits": {[]string{locktest.ToWait, "NewMultiLock"}, privilegeUse{use: waitForMany}},
		"a MultiLock, fenced":    {[]string{"WithFencing", "NewMultiLock"}, privilegeUse{use: takeAll(multiOf, fenced)}},
		"a RedLock that waits":   {[]string{locktest.ToWait, "NewRedLock"}, privilegeUse{start: threeServers, use: waitForNodes}},
		"a RedLock, fenced":      {[]string{"WithFencing", "NewRedLock"}, privilegeUse{start: threeServers, use: takeAll(redOf, fenced)}},
		"an RWLock, fenced":      {[]string{"NewRWLock"}, privilegeUse{use: takeAll(rwOf, fenced)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newPrivilegeBench(t, tt.use)
			require.NoError(t, b.try(locktest.ReadmePrivileges(t).Besides(t, locktest.Privilege{Beside: tt.of})))
			b.requireNothingDenied()
		})
	}
}
