//go:build !linux

package cli

// workWord is used on Linux only.
const workWord = "work-under-the-lock"

func work([]string) int { return 1 }
