package locktest

import (
	"context"
)

func NoWork(context.Context) error { return nil }
