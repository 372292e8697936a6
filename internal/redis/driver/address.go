package driver

import "errors"

// AddressOf returns the address of the server to which a request for a key has
// gone that failed with err. It is "" if the topology named none, and for a
// pool of the user.
func AddressOf(d Driver, key string, err error) string {
	if errors.As(err, new(unroutedError)) {
		return ""
	}
	return d.Known(key).Address()
}
