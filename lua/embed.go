// Package lua provides the scripts of the locks, one file each, and what they
// share. It is no API: files, names and keys may change with any release.
package lua

import "embed"

// Files are the scripts.
//
//go:embed *.lua
var Files embed.FS
