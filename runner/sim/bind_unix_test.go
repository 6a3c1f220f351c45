//go:build unix

package sim

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"testing"
)

func TestBoundPortRefuses(t *testing.T) {
	s, err := bind("127.0.0.1", 0)
	if err != nil {
		t.Fatal(err)
	}
	addr, err := syscall.Getsockname(s.fd)
	if err != nil {
		t.Fatal(err)
	}
	port := addr.(*syscall.SockaddrInet4).Port
	target := net.JoinHostPort("127.0.0.1", fmt.Sprint(port))
	if _, err := net.Dial("tcp", target); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a bound port: %v, want a refusal", err)
	}
	ln, err := s.Listen()
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if _, err := bind("127.0.0.1", port); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("binding a port that is listened on: %v", err)
	}
	conn, err := net.Dial("tcp", target)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}
