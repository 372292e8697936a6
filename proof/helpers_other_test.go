//go:build !linux

package proof

import "github.com/relock-go/relock/internal/test/faults"

// roles are empty where there are no helper processes.
var roles map[string]faults.Role
