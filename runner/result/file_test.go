package result

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// failing is a temporary file whose methods fail on request.
type failing struct {
	*os.File
	write, sync, close error
}

func (f failing) Write(b []byte) (int, error) {
	if f.write != nil {
		n, err := f.File.Write(b[:len(b)/2])
		return n, errors.Join(f.write, err)
	}
	return f.File.Write(b)
}

func (f failing) Sync() error { return errors.Join(f.sync, f.File.Sync()) }

func (f failing) Close() error { return errors.Join(f.File.Close(), f.close) }

func entries(t *testing.T, dir string) []string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "run.json")
	for _, text := range []string{"one", "", strings.Repeat("x", 1<<20)} {
		if err := WriteFile(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != text {
			t.Fatalf("%d bytes written, %d read (%v)", len(text), len(b), err)
		}
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o644 {
		t.Errorf("mode %v (%v)", st.Mode(), err)
	}
	if names := entries(t, dir); len(names) != 1 {
		t.Errorf("more than the file is there: %v", names)
	}
}

func TestWriteFileFailure(t *testing.T) {
	f := func(name string, bad failing, wants ...string) {
		t.Helper()
		dir := t.TempDir()
		path := filepath.Join(dir, "run.json")
		if err := WriteFile(path, []byte("before")); err != nil {
			t.Fatal(err)
		}
		err := writeFile(path, []byte("after"), func(dir, pattern string) (file, error) {
			real, err := os.CreateTemp(dir, pattern)
			bad.File = real
			return bad, err
		})
		if err == nil {
			t.Errorf("%s: no error", name)
			return
		}
		for _, w := range append(wants, path) {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %q is not in %q", name, w, err)
			}
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != "before" {
			t.Errorf("%s: what was there became %q (%v)", name, b, err)
		}
		if names := entries(t, dir); len(names) != 1 {
			t.Errorf("%s: something is left behind: %v", name, names)
		}
	}
	f("disk full while writing", failing{write: syscall.ENOSPC}, "no space left on device", "\nhint: the disk is full")
	f("disk full at sync", failing{sync: syscall.ENOSPC}, "\nhint: the disk is full")
	f("quota at close", failing{close: syscall.EDQUOT}, "\nhint: your quota")
	f("input/output error", failing{sync: syscall.EIO}, "input/output error")
}

func TestWriteFileWhere(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "no", "run.json")
	if err := WriteFile(missing, nil); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "\nhint: the folder is not there") {
		t.Errorf("a missing folder: %v", err)
	}
	// A folder stands where the file should go: the rename fails.
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "run.json", "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(filepath.Join(dir, "run.json"), []byte("x")); err == nil {
		t.Error("a folder was replaced")
	}
	if names := entries(t, dir); len(names) != 1 {
		t.Errorf("something is left behind: %v", names)
	}
	t.Chdir(dir)
	if err := WriteFile("here.txt", []byte("x")); err != nil {
		t.Errorf("a bare name: %v", err)
	}
}
