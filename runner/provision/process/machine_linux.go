package process

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// strangerListens reports whether a process that is not one of pids accepts connections to the port on our host. It
// is best effort: false also when that cannot be found out. With SO_REUSEPORT, which vLLM sets, two programs can
// listen on one port and share its connections; so every listener must be ours.
func strangerListens(port int, pids []int) bool {
	listeners := listenersOn(port)
	if len(listeners) == 0 {
		return false
	}
	ours := map[string]bool{}
	for _, pid := range pids {
		if !addSockets(ours, pid) {
			return false
		}
	}
	for _, inode := range listeners {
		if !ours[inode] {
			return true
		}
	}
	return false
}

// listenersOn gives the inodes of the sockets that a connection to 127.0.0.1:port can reach: those of that very
// address, or else those of all addresses.
func listenersOn(port int) []string {
	v4, _ := os.ReadFile("/proc/net/tcp")
	v6, _ := os.ReadFile("/proc/net/tcp6")
	if exact := parseListeners(v4, port, "0100007F"); len(exact) > 0 {
		return exact
	}
	return append(parseListeners(v4, port, strings.Repeat("0", 8)), parseListeners(v6, port, strings.Repeat("0", 32))...)
}

// parseListeners reads /proc/net/tcp or tcp6 (proc_pid_net(5)): the second field is the local address and port in
// hexadecimal, the fourth the state (0A = listening), the tenth the inode.
func parseListeners(table []byte, port int, address string) (inodes []string) {
	want := fmt.Sprintf("%s:%04X", address, port)
	for line := range bytes.Lines(table) {
		f := bytes.Fields(line)
		if len(f) >= 10 && string(f[1]) == want && string(f[3]) == "0A" {
			inodes = append(inodes, string(f[9]))
		}
	}
	return inodes
}

// addSockets adds the inodes of a process's sockets. False when they may not be seen; a process that has just ended
// has none.
func addSockets(inodes map[string]bool, pid int) bool {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return !os.IsPermission(err)
	}
	for _, e := range entries {
		target, err := os.Readlink(filepath.Join(dir, e.Name()))
		if err != nil {
			continue
		}
		if inode, ok := strings.CutPrefix(target, "socket:["); ok {
			inodes[strings.TrimSuffix(inode, "]")] = true
		}
	}
	return true
}

// diskFull reports whether the file system of a file has no space for us.
func diskFull(path string) bool {
	var st unix.Statfs_t
	return unix.Statfs(path, &st) == nil && st.Blocks > 0 && st.Bavail == 0
}
