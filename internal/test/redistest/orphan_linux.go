package redistest

import "syscall"

// withParent makes the system kill a server when the test process ends, however
// that ends. A server that is left over would keep its port, and whatever files
// the tests were started with.
func withParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
