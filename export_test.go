package relock

// What tests of package relock_test check below the public API.
var (
	Wrap       = wrap
	ReadInfo   = readInfo
	ReadRWInfo = readRWInfo
)
