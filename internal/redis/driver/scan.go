package driver

import (
	"context"
	"strings"
)

// verbatim escapes a text, so that a pattern matches exactly that text.
var verbatim = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)

// scanTogether is how many keys one SCAN reads, about. Reading one takes half a
// microsecond, so a SCAN keeps the server from others for a quarter of a
// millisecond. A million keys are 2,000 round trips.
const scanTogether = 512

// ScanKeys returns some keys of a server that begin with the prefix and match
// the pattern after it, without the prefix, and the cursor of the next call:
// "0" after the last one, as before the first.
func ScanKeys(ctx context.Context, n Node, cursor, prefix, pattern string) (next string, keys []string, err error) {
	match := verbatim.Replace(prefix) + pattern
	o := n.Call(ctx, Limits{}, Request{Cmd: "SCAN", Args: []any{cursor, "MATCH", match, "COUNT", scanTogether}})
	if o.Err != nil {
		return "", nil, ContextErr(ctx, o.Err)
	}
	values, err := Values(o.Reply, nil)
	if err == nil {
		_, err = Scan(values, &next, &keys)
	}
	for i := range keys {
		keys[i] = strings.TrimPrefix(keys[i], prefix)
	}
	return next, keys, err
}
