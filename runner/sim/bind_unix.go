//go:build unix

package sim

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"syscall"
)

// socket is an address that is taken but not listened on: vLLM binds its port before it loads the model, so a second
// server fails at once, and listens only when it is ready, so that clients are refused and do not hang.
type socket struct {
	fd int // -1 once it is someone else's
}

// bind takes an address. Port 0 takes any free port. The error wraps syscall.EADDRINUSE when somebody listens on it;
// of two servers that load at the same time, as with vLLM, the second to listen fails.
func bind(host string, port int) (*socket, error) {
	addr, err := net.ResolveTCPAddr("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return nil, err
	}
	family, sa := syscall.AF_INET, syscall.Sockaddr(nil)
	if v4 := addr.IP.To4(); v4 != nil || len(addr.IP) == 0 {
		in := &syscall.SockaddrInet4{Port: addr.Port}
		copy(in.Addr[:], v4)
		sa = in
	} else {
		in := &syscall.SockaddrInet6{Port: addr.Port}
		copy(in.Addr[:], addr.IP.To16())
		family, sa = syscall.AF_INET6, in
	}
	syscall.ForkLock.RLock()
	fd, err := syscall.Socket(family, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fd)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	s := &socket{fd}
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		s.Close()
		return nil, os.NewSyscallError("setsockopt", err)
	}
	if err := syscall.Bind(fd, sa); err != nil {
		s.Close()
		return nil, os.NewSyscallError("bind", err)
	}
	return s, nil
}

const backlog = 2048 // uvicorn's

// Listen starts to accept connections. The socket is the listener's from then on.
func (s *socket) Listen() (net.Listener, error) {
	if err := syscall.Listen(s.fd, backlog); err != nil {
		return nil, os.NewSyscallError("listen", err)
	}
	f := os.NewFile(uintptr(s.fd), "listener")
	s.fd = -1
	defer f.Close() // FileListener has a copy of its own
	ln, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	return ln, nil
}

// Close gives the address back, unless Listen was called.
func (s *socket) Close() {
	if s.fd >= 0 {
		syscall.Close(s.fd)
		s.fd = -1
	}
}

// killSelf ends the process as SIGKILL from outside would.
func killSelf() {
	if syscall.Kill(os.Getpid(), syscall.SIGKILL) != nil {
		os.Exit(137)
	}
	select {} // the signal is on its way
}
