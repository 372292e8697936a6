package locktest

import (
	"errors"
)

var ErrMine = errors.New("mine")
