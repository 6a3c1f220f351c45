package spec

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// Load reads the experiment file at path, and the prompt file that it may name. The experiment is nil exactly when
// there are faults; all faults that can be found at once are in the list.
func Load(path string) (*Experiment, []Fault) {
	data, fault := readFile(path)
	if fault != nil {
		return nil, []Fault{*fault}
	}
	return Parse(path, data)
}

// Parse is Load for a file whose bytes are at hand. path is used in faults and to find the prompt file.
func Parse(path string, data []byte) (*Experiment, []Fault) {
	r := &reader{file: path, keys: map[string]Position{}, nodes: map[string]ast.Node{}}
	body := r.tree(data)
	if body == nil {
		return nil, r.report()
	}
	var f fileExperiment
	r.decode(body, "", reflect.ValueOf(&f).Elem(), rules{example: ""})
	e := r.resolve(&f)
	if len(r.faults) > 0 {
		return nil, r.report()
	}
	return e, nil
}

// report is the faults in order, without what follows from too many of them.
func (r *reader) report() []Fault {
	sortFaults(r.file, r.faults)
	if len(r.faults) > maxFaults {
		last := r.faults[maxFaults]
		last.Message, last.Hint, last.Text = fmt.Sprintf("and %d more", len(r.faults)-maxFaults+r.more), "", ""
		return append(r.faults[:maxFaults:maxFaults], last)
	}
	return r.faults
}

// readFile reads a regular file of at most maxFile bytes. Nothing else is opened: a pipe would block, and a file of
// 50 MB is refused by its size.
func readFile(path string) ([]byte, *Fault) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &Fault{File: path, Message: "no such file", Hint: neighbour(path)}
	case err != nil:
		return nil, &Fault{File: path, Message: "cannot be read: " + cause(err)}
	case info.IsDir():
		return nil, &Fault{File: path, Message: "is a directory", Hint: "name the files in it, such as " + filepath.Join(path, "*.yaml")}
	case !info.Mode().IsRegular():
		return nil, &Fault{File: path, Message: "is not a regular file", Hint: "write the experiment to a file first"}
	case info.Size() > maxFile:
		f := tooLarge(info.Size())
		f.File = path
		return nil, &f
	}
	data, err := readAtMost(func() (fs.File, error) { return os.Open(path) }, maxFile)
	if err != nil {
		return nil, &Fault{File: path, Message: "cannot be read: " + cause(err)}
	}
	return data, nil
}

// readAtMost reads a file up to one byte more than limit, so that a file that grew meanwhile is noticed by its length.
func readAtMost(open func() (fs.File, error), limit int64) ([]byte, error) {
	f, err := open()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit+1))
}

// cause is the system's reason without the operation and the path, which the fault has already.
func cause(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}

// neighbour names the YAML file beside path that is likely meant.
func neighbour(path string) string {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return ""
	}
	var names []string
	for _, e := range entries {
		if n := e.Name(); !e.IsDir() && (strings.HasSuffix(n, ".yaml") || strings.HasSuffix(n, ".yml")) {
			names = append(names, n)
		}
	}
	base := filepath.Base(path)
	best := closest(base, names)
	if best == "" {
		best = closest(base+".yaml", names)
	}
	if best == "" {
		return ""
	}
	return "did you mean " + filepath.Join(filepath.Dir(path), best) + "?"
}
