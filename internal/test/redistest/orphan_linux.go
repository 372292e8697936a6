package redistest

import "syscall"

// withParent makes the system kill a server when the test process ends, however
// that ends. A server that is left over would keep its port, and whatever files
// the tests were started with. It is in a separate process group: when a shell
// ends, the system continues what a test has stopped in the shell's group.
func withParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
