package conns

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/relock-go/relock/internal/errs"
)

// The reasons for which a connection is not opened, not used, or given up.
var (
	errStale       = errors.New("idle connection is older than a break")
	errNoIdle      = errors.New("no idle connection in the pool")
	errDialTimeout = fmt.Errorf("connecting takes too long: %w", os.ErrDeadlineExceeded)
	// errUnsent is the error of a request whose connection was lost before
	// the request was written. The next connection may take it.
	errUnsent     = fmt.Errorf("connection was lost before the request was sent: %w", io.EOF)
	errNoTimeouts = fmt.Errorf("%w: pool: its connections do not implement redis.ConnWithTimeout", errs.ErrInvalid)
)
