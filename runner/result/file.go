package result

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// FileName is the document's name in a results folder.
const FileName = "run.json"

// maxBytes bounds what Read takes in: a results folder has 1 MiB at most, so more is no document of ours.
const maxBytes = 64 << 20

// ErrSchema is returned for a document of another schema version.
var ErrSchema = errors.New("another version of the result document")

// Marshal writes the document, indented, with a newline at its end. The same document gives the same bytes. The error
// says which value JSON cannot hold (NaN, an infinity).
func Marshal(run *Run) ([]byte, error) {
	doc := *run
	doc.Starts = present(doc.Starts)
	doc.Trials = present(doc.Trials)
	doc.Cells = present(doc.Cells)
	doc.Gates = present(doc.Gates)
	doc.Files = present(doc.Files)
	doc.Plan.Order = present(doc.Plan.Order)
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err := enc.Encode(&doc); err != nil {
		return nil, fmt.Errorf("write the result document: %w", err)
	}
	return out.Bytes(), nil
}

// present makes an empty list of none: these lists are never unknown.
func present[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// Read reads run.json of a results folder. The error wraps fs.ErrNotExist when there is none, ErrSchema when it is of
// another version.
func Read(dir string) (*Run, error) {
	path := filepath.Join(dir, FileName)
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the result: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read the result: %w", err)
	}
	if len(b) > maxBytes {
		return nil, fmt.Errorf("read the result: %s is larger than %d MiB and no result document", path, maxBytes>>20)
	}
	run, err := Decode(b)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return run, nil
}

// Decode reads a document. Fields that it does not know are passed over: a later program may add some without a new
// version. The error wraps ErrSchema when the document is of another version.
func Decode(b []byte) (*Run, error) {
	var head struct {
		Schema *string `json:"schema"`
		Tool   struct {
			Version string `json:"version"`
		} `json:"tool"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return nil, fmt.Errorf("not a result document: %w", err)
	}
	switch {
	case head.Schema == nil:
		return nil, fmt.Errorf("not a result document: it names no schema; expected %q", Schema)
	case *head.Schema != Schema:
		return nil, fmt.Errorf("%w: it is %.60q and was written by benchctl %.60q; this program reads %q\nhint: read it with that benchctl, or measure again", ErrSchema, *head.Schema, head.Tool.Version, Schema)
	}
	var run Run
	if err := json.Unmarshal(b, &run); err != nil {
		return nil, fmt.Errorf("not a result document of schema %s: %w", Schema, err)
	}
	if run.Experiment == nil {
		return nil, fmt.Errorf("not a result document of schema %s: it has no experiment", Schema)
	}
	return &run, nil
}

// WriteFile puts data at path, whole or not at all: it writes a temporary file beside it (named .NAME.*.tmp), syncs it,
// renames it and syncs the folder. The folder must exist. On an error nothing is left behind and what was at path
// before is still there; only a process that is killed in between leaves its temporary file. The error says what can be
// done about a full disk and the like on a line of its own.
func WriteFile(path string, data []byte) error {
	return writeFile(path, data, func(dir, pattern string) (file, error) { return os.CreateTemp(dir, pattern) })
}

// file is what writeFile needs of a temporary file; tests put a failing one in its place.
type file interface {
	io.Writer
	Name() string
	Chmod(fs.FileMode) error
	Sync() error
	Close() error
}

func writeFile(path string, data []byte, create func(dir, pattern string) (file, error)) (err error) {
	dir, base := filepath.Split(path)
	if dir == "" {
		dir = "."
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("write %s: %w%s", path, err, hint(err))
		}
	}()
	f, err := create(dir, "."+base+".*.tmp")
	if err != nil {
		return err
	}
	if err := fill(f, data); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncDir(dir)
}

// fill writes, syncs and closes; it closes in any case.
func fill(f file, data []byte) error {
	_, err := f.Write(data)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}

// syncDir makes a rename last. File systems that cannot sync a folder say EINVAL; nothing more can be done there.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOTSUP) {
		return err
	}
	return nil
}

// hint says what can be done about an error, on a line of its own, or "".
func hint(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return "\nhint: the disk is full: free some space, or choose another folder with --out; what was measured before is kept"
	case errors.Is(err, syscall.EDQUOT):
		return "\nhint: your quota on this disk is used up: free some space, or choose another folder with --out"
	case errors.Is(err, syscall.EROFS):
		return "\nhint: this file system is read-only: choose another folder with --out"
	case errors.Is(err, fs.ErrPermission):
		return "\nhint: you may not write there: choose another folder with --out"
	case errors.Is(err, fs.ErrNotExist):
		return "\nhint: the folder is not there any more"
	}
	return ""
}
