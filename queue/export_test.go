package queue

import "time"

// RenewNow makes the renewal of the lease due.
func (d *Delivery) RenewNow() { d.hold.Lease().RenewNow() }

// ValidUntil returns the time until which the delivery is valid.
func (d *Delivery) ValidUntil() time.Time { return d.hold.ValidUntil() }
