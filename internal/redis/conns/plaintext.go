package conns

import (
	"errors"

	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/redis/wire"
)

// encryptedError is the error of a connection in plain text that ended before
// any answer, if the server has never given one. A port of TLS does that.
type encryptedError struct{ error }

func (e encryptedError) Error() string {
	return e.error.Error() + " (no answer in plain text, the port may be one of TLS: rediss://)"
}

// Unwrap returns the reason why the connection ended.
func (e encryptedError) Unwrap() error { return e.error }

// orEncrypted adds to an error that the server may want TLS.
func (d *server) orEncrypted(err error) error {
	var unaccepted wire.UnacceptedError
	if d.answered.Load() || !errors.As(err, &unaccepted) || !unaccepted.Plain || !driver.IsNetwork(err) ||
		driver.IsTimeout(err) {
		return err
	}
	return encryptedError{err}
}

// noteAnswered notes that the server has answered.
func (d *server) noteAnswered() {
	if !d.answered.Load() {
		d.answered.Store(true)
	}
}
