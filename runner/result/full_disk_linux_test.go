package result_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"h100-inference-control-plane/runner/result"
)

// TestFullDisk fills a real file system of 64 KiB.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("needs the right to mount a file system: %v", err)
	}
	defer func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	}()
	path := filepath.Join(dir, "run.json")
	if err := result.WriteFile(path, []byte("before")); err != nil {
		t.Fatal(err)
	}
	err := result.WriteFile(path, make([]byte, 1<<20))
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "\nhint: the disk is full") {
		t.Errorf("a full disk: %v", err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "before" {
		t.Errorf("what was there became %q (%v)", b, err)
	}
	list, err := os.ReadDir(dir)
	if err != nil || len(list) != 1 {
		t.Errorf("left behind: %v (%v)", list, err)
	}
}
