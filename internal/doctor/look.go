package doctor

import (
	"context"
	"time"

	"github.com/relock-go/relock"
)

// Look checks the settings of the server only. It writes nothing. It does not
// read appendfsync: most users may not, and ACL LOG would have each attempt.
func Look(ctx context.Context, client *relock.Client, timeout time.Duration) []Finding {
	d := &doctor{Options: Options{Timeout: timeout}, client: client}
	d.server(ctx)
	return d.findings
}
