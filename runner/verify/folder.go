package verify

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"time"

	"h100-inference-control-plane/runner/measure"
	"h100-inference-control-plane/runner/record"
	"h100-inference-control-plane/runner/result"
)

const (
	// maxFile bounds what is read of one file. A results folder has 1 MiB at most.
	maxFile = 64 << 20
	// maxUnpacked bounds what a compressed scrape may become.
	maxUnpacked = 16 << 20
	journal     = "journal"
)

// folder is what a results folder holds. Only plain files that were found by walking it are ever opened, so a path in the
// document cannot lead out of it.
type folder struct {
	fsys    fs.FS
	plain   map[string]int64 // size by path, run.json included, the journal not
	strange map[string]string
	journal bool
	bad     map[string]bool // its bytes are not those that were listed
}

// unreadable is a file that is there and cannot be used.
type unreadable struct{ why string }

func (u *unreadable) Error() string { return u.why }

func open(fsys fs.FS) (*folder, error) {
	f := &folder{fsys: fsys, plain: map[string]int64{}, strange: map[string]string{}, bad: map[string]bool{}}
	err := fs.WalkDir(fsys, ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path == journal:
			f.journal = true
			return fs.SkipDir
		case d.IsDir():
			return nil
		case !d.Type().IsRegular():
			f.strange[path] = "it is no plain file: " + kindOf(d.Type())
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		f.plain[path] = info.Size()
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the results folder: %w", err)
	}
	if _, ok := f.plain[result.FileName]; !ok && f.strange[result.FileName] == "" {
		return nil, ErrNoResult
	}
	return f, nil
}

func kindOf(m fs.FileMode) string {
	if m&fs.ModeSymlink != 0 {
		return "a symbolic link"
	}
	return "mode " + m.String()
}

// read returns a file's bytes; *unreadable when it is not there, no plain file or too large.
func (f *folder) read(path string) ([]byte, error) {
	if why := f.strange[path]; why != "" {
		return nil, &unreadable{why}
	}
	size, ok := f.plain[path]
	switch {
	case !ok:
		return nil, &unreadable{"it is not there"}
	case size > maxFile:
		return nil, &unreadable{fmt.Sprintf("it has %d bytes; %d at most are read", size, maxFile)}
	}
	file, err := f.fsys.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, maxFile))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return b, nil
}

// files compares the folder with the list in the document.
func (v *verifier) files() error {
	listed := map[string]bool{}
	for i, want := range v.stored.Files {
		at := Difference{Kind: OfFile, File: want.Path, Path: ""}
		switch {
		case !fs.ValidPath(want.Path) || want.Path == ".":
			v.differ(Difference{Kind: OfFile, File: result.FileName, Path: fmt.Sprintf("files[%d].path", i), Stored: quote(want.Path), Note: "the path leads out of the folder; it was not followed"})
			continue
		case listed[want.Path]:
			at.Note = "it is listed twice"
			v.differ(at)
			continue
		}
		listed[want.Path] = true
		if err := v.file(want, at); err != nil {
			return err
		}
	}
	var extra []string
	for path := range v.folder.plain {
		if !listed[path] && path != result.FileName {
			extra = append(extra, path)
		}
	}
	for path := range v.folder.strange {
		if !listed[path] {
			extra = append(extra, path)
		}
	}
	slices.Sort(extra)
	for _, path := range extra {
		v.differ(Difference{Kind: OfFile, File: path, Note: "it is not listed in run.json"})
	}
	return nil
}

func (v *verifier) file(want result.File, at Difference) error {
	v.count("files", 1)
	b, err := v.folder.read(want.Path)
	var bad *unreadable
	switch {
	case errors.As(err, &bad):
		at.Note = bad.why
	case err != nil:
		return err
	case int64(len(b)) != want.Bytes:
		at.Path, at.Stored, at.Again = "bytes", fmt.Sprint(want.Bytes), fmt.Sprint(len(b))
		at.Note = "the file is not the one that was listed"
	default:
		sum := sha256.Sum256(b)
		if got := hex.EncodeToString(sum[:]); got != want.SHA256 {
			at.Path, at.Stored, at.Again = "sha256", want.SHA256, got
			at.Note = "the file is not the one that was listed"
		}
	}
	if at.Note != "" {
		v.folder.bad[want.Path] = true
		v.differ(at)
	}
	return nil
}

// evidence reads a file that numbers are computed from. ok is false when it cannot be used; why was then named.
func (v *verifier) evidence(path string) (b []byte, ok bool, err error) {
	if v.folder.bad[path] {
		return nil, false, nil
	}
	b, err = v.folder.read(path)
	var bad *unreadable
	if errors.As(err, &bad) {
		v.broken(path, bad)
		return nil, false, nil
	}
	return b, err == nil, err
}

func (v *verifier) broken(path string, why error) {
	v.folder.bad[path] = true
	v.differ(Difference{Kind: OfFile, File: path, Note: why.Error()})
}

func requestsFile(trial string) string { return "requests/" + trial + ".csv.gz" }

// records reads a trial's requests.
func (v *verifier) records(trial string) (recs []record.Record, ok bool, err error) {
	path := requestsFile(trial)
	b, ok, err := v.evidence(path)
	if !ok || err != nil {
		return nil, false, err
	}
	if recs, err = record.Read(bytes.NewReader(b)); err != nil {
		v.broken(path, err)
		return nil, false, nil
	}
	return recs, true, nil
}

// scrape reads what the engine said at one edge of a trial's window: "t0" or "t1".
func (v *verifier) scrape(trial, edge string, at time.Time) (s *measure.Scrape, ok bool, err error) {
	path := "metrics/" + trial + "-" + edge + ".prom.gz"
	b, ok, err := v.evidence(path)
	if !ok || err != nil {
		return nil, false, err
	}
	if b, err = unpack(b); err == nil {
		s, err = measure.ParseExposition(at, b)
	}
	if err != nil {
		v.broken(path, err)
		return nil, false, nil
	}
	return s, true, nil
}

func unpack(b []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("unpack: %w", err)
	}
	out, err := io.ReadAll(io.LimitReader(z, maxUnpacked+1))
	if err != nil {
		return nil, fmt.Errorf("unpack: %w", err)
	}
	if len(out) > maxUnpacked {
		return nil, fmt.Errorf("unpack: more than %d bytes", maxUnpacked)
	}
	return out, nil
}
