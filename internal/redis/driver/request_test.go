package driver

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestKeyOfARequest(t *testing.T) {
	t.Parallel()
	for want, all := range map[string][]Request{
		"k": {
			SetNX("k", "v", time.Second),
			{Cmd: "PTTL", Args: []any{"k"}},
			{Cmd: "EVAL", Args: []any{"return 1", 2, "k", "other", "arg"}},
			{Cmd: "EVALSHA", Args: []any{"digest", 1, "k"}},
			Eval("EVALSHA", "digest", "k", []string{":q"}, nil),
		},
		"": {
			{Cmd: "PING"},
			{Cmd: "SCAN", Args: []any{"0", "MATCH", "k"}},
			{Cmd: "EVAL", Args: []any{"return 1", 0, "arg"}},
			{Cmd: "EVALSHA", Args: []any{"digest"}},
			(&Ack{Replicas: 1}).Request(),
		},
	} {
		for _, r := range all {
			require.Equal(t, want, r.Key(), r)
		}
	}
}

// A request with a head has the arguments of its list.
func TestHeadHasAList(t *testing.T) {
	t.Parallel()
	set, eval := SetNX("k", "v", time.Second), Eval("EVAL", "return 1", "k", []string{":q"}, []any{"a"})
	require.Equal(t, []any{"k", "v", "PX", int64(1000), "NX"}, set.List())
	require.Equal(t, []any{"return 1", 2, "k", "k:q", "a"}, eval.List())
}
