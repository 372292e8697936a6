package locktest

import (
	"time"
)

// WaiterLimit is the command timeout of a client that waits behind a proxy: below the delays that are too late.
const WaiterLimit = time.Second
