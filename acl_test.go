package relock_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
)

// What the READMEs promise is what the tests try.
func TestPrivilegesAreThoseOfTheReadme(t *testing.T) {
	t.Parallel()
	p := locktest.ReadmePrivileges(t)
	require.Equal(t, append(strings.Fields("SETUSER app on >password resetkeys ~relock:* -@all"), locktest.Plus(locktest.LeastPrivilege)...), p.Least)
	require.Equal(t, append(strings.Fields("SETUSER app resetchannels &relock:*"), locktest.Plus(waitPrivilege)...), p.Wait)
	require.Equal(t, strings.Fields(locktest.RwCommands), p.Find(t, "NewRWLock").Commands)
	require.Equal(t, p, locktest.ReadPrivileges(t, "README.zh-CN.md", "等待所需的权限"))
	uses := locktest.PrivilegeUses()
	for _, one := range p.OnTop {
		require.Contains(t, uses, one.Of, "no test needs it")
		require.NotEmpty(t, append(one.Beside, one.Commands...), one.Of)
	}
	require.Len(t, p.OnTop, len(uses), "what the README does not name")
}

// What is needed on top is enough: nothing is denied. Without any one of it there is an error that says so.
func TestPrivilegesOnTop(t *testing.T) {
	t.Parallel()
	p := locktest.ReadmePrivileges(t)
	for of, use := range locktest.PrivilegeUses() {
		t.Run(of, func(t *testing.T) {
			t.Parallel()
			one := p.Find(t, of)
			b := locktest.NewPrivilegeBench(t, p, use)
			besides := p.Besides(t, one)
			all := slices.Concat(besides, one.Commands)
			require.NoError(t, b.Try(all))
			b.RequireNothingDenied()
			if len(one.Commands) == 0 {
				b.RequireDenied("what is beside it", nil)
			}
			for _, command := range one.Commands {
				b.RequireDenied(command, append(slices.Clone(all), "-"+strings.TrimPrefix(command, "+")))
			}
		})
	}
}

// Two of them together need what each does, and no more.
func TestPrivilegesTogether(t *testing.T) {
	t.Parallel()
	p := locktest.ReadmePrivileges(t)
	for name, tt := range map[string]struct {
		of  []string
		use locktest.PrivilegeUse
	}{
		"a MultiLock that waits": {[]string{locktest.ToWait, "NewMultiLock"}, locktest.PrivilegeUse{Use: locktest.WaitForMany}},
		"a MultiLock, fenced":    {[]string{"WithFencing", "NewMultiLock"}, locktest.PrivilegeUse{Use: locktest.TakeAll(locktest.MultiOf, relock.WithFencing())}},
		"a RedLock that waits":   {[]string{locktest.ToWait, "NewRedLock"}, locktest.PrivilegeUse{Start: locktest.ThreeServers, Use: locktest.WaitForNodes}},
		"a RedLock, fenced":      {[]string{"WithFencing", "NewRedLock"}, locktest.PrivilegeUse{Start: locktest.ThreeServers, Use: locktest.TakeAll(locktest.RedOf, relock.WithFencing())}},
		"an RWLock, fenced":      {[]string{"NewRWLock"}, locktest.PrivilegeUse{Use: locktest.TakeAll(locktest.RwOf, relock.WithFencing())}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := locktest.NewPrivilegeBench(t, p, tt.use)
			require.NoError(t, b.Try(p.Besides(t, locktest.Privilege{Beside: tt.of})))
			b.RequireNothingDenied()
		})
	}
}
