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
			{Cmd: "EVAL", Args: []any{"return 1", 2, "k", "other", "arg"}},
			{Cmd: "EVALSHA", Args: []any{"digest", 1, "k"}},
		},
		"": {
			{Cmd: "PING"},
			{Cmd: "SCAN", Args: []any{"0", "MATCH", "k"}},
			{Cmd: "EVAL", Args: []any{"return 1", 0, "arg"}},
			{Cmd: "EVALSHA", Args: []any{"digest"}},
			(&Ack{Replicas: 1}).request(),
		},
	} {
		for _, r := range all {
			require.Equal(t, want, r.Key(), r)
		}
	}
}
