package queue

import "time"

// RenewNow makes the renewal of the lease due, and those of all others of the
// client, as a change of masters does.
func (d *Delivery) RenewNow() { d.queue.engine.NodesChanged(nil) }

// ValidUntil returns the time until which the delivery is valid.
func (d *Delivery) ValidUntil() time.Time { return d.protocol.ValidUntil() }
