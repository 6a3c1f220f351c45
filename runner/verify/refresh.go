package verify

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"h100-inference-control-plane/runner/derive"
	"h100-inference-control-plane/runner/result"
)

// ErrEvidence is returned by Refresh for a folder whose evidence is not what it was.
var ErrEvidence = errors.New("the evidence itself differs")

// Refresh returns what of a folder has to be written anew so that it verifies with this program: the rendered files that
// have other bytes, and run.json, which comes last. It is for folders whose rules have changed since: checks, verdicts
// and reports follow from the evidence, so they may be made anew; none are returned when nothing differs. Evidence is
// never rewritten: the error is ErrEvidence, with the first difference, when a number, a raw file or the list of files
// differs. Other errors are those of Folder.
func Refresh(fsys fs.FS, o Options) ([]derive.File, error) {
	v, err := run(fsys, o)
	if err != nil {
		return nil, err
	}
	for _, d := range v.report.Differences {
		if d.Kind == OfEvidence || d.Kind == OfFile && !v.isRendered(d.File) || d.Kind == OfDocument && !older(d) {
			return nil, fmt.Errorf("%w: %s %s %s", ErrEvidence, d.File, d.Path, d.Note)
		}
	}
	if v.report.OK() {
		return nil, nil
	}
	if v.again == nil || v.made == nil {
		return nil, fmt.Errorf("%w: it could not be computed again", ErrEvidence)
	}
	return v.anew()
}

// older is true for what a document lacks, or has in another order, because the schema grew since. A value that this
// program does not know would be lost.
func older(d Difference) bool { return d.Stored == absent || strings.HasPrefix(d.Path, "line ") }

func (v *verifier) isRendered(path string) bool {
	return slices.ContainsFunc(v.made, func(f derive.File) bool { return f.Path == path })
}

func (v *verifier) anew() ([]derive.File, error) {
	var out []derive.File
	for _, f := range v.made {
		sum := sha256.Sum256(f.Bytes)
		listed := result.File{Path: f.Path, Bytes: int64(len(f.Bytes)), SHA256: hex.EncodeToString(sum[:])}
		i := slices.IndexFunc(v.again.Files, func(x result.File) bool { return x.Path == f.Path })
		if i < 0 {
			v.again.Files = append(v.again.Files, listed)
		} else {
			v.again.Files[i] = listed
		}
		if have, err := v.folder.read(f.Path); err != nil || string(have) != string(f.Bytes) {
			out = append(out, f)
		}
	}
	slices.SortFunc(v.again.Files, func(a, b result.File) int { return strings.Compare(walked(a.Path), walked(b.Path)) })
	doc, err := result.Marshal(v.again)
	if err != nil {
		return nil, err
	}
	return append(out, derive.File{Path: result.FileName, Bytes: doc}), nil
}

// walked orders paths as a walk through the folder does: the names of one folder in order, before what is in them.
func walked(path string) string { return strings.ReplaceAll(path, "/", "\x00") }
