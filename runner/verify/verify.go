// Package verify computes a results folder again from its own raw records, and names everything that comes out
// differently: hashes, client summaries, engine counters, objectives, checks, cells, verdicts and the bytes of every
// rendered file. It needs no network and no VictoriaMetrics; what cannot be computed without them, or from what is in no
// file, is named as such and taken as it stands. It repairs nothing, and it says nothing about who made a folder: one
// that was made up as a whole, records included, verifies.
package verify

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"h100-inference-control-plane/runner/derive"
	"h100-inference-control-plane/runner/engine"
	"h100-inference-control-plane/runner/result"
)

// ErrNoResult is returned for a folder without a run.json.
var ErrNoResult = errors.New("it holds no run.json")

// Options are what a folder does not say.
type Options struct {
	// Engine gives an engine by its name in the spec; ok is false for one that is not known.
	Engine func(name string) (e engine.Engine, ok bool)
}

// Kind says what a difference is about.
type Kind string

// The kinds, in the order in which they are looked for. What follows from another is found after it.
const (
	OfFile     Kind = "file"     // a file that is changed, missing, extra or unreadable
	OfDocument Kind = "document" // run.json is not what this program would write
	OfEvidence Kind = "evidence" // a number is not what the records, scrapes or the plan give
	OfDerived  Kind = "derived"  // a judgement, a check, a cell, a gate or a verdict does not follow
	OfRendered Kind = "rendered" // a file that is made from run.json has other bytes
)

// Difference is one thing that is not as it should be.
type Difference struct {
	Kind   Kind   `json:"kind"`
	File   string `json:"file"`             // in the folder, with slashes
	Path   string `json:"path,omitempty"`   // in the JSON: trials[2].client.ttft.p50; or the line of a text: line 12
	About  string `json:"about,omitempty"`  // what the path's numbers stand for: the trial's ID, the cell's name
	Stored string `json:"stored,omitempty"` // as JSON, or the line; cut to 200 bytes
	Again  string `json:"recomputed,omitempty"`
	Note   string `json:"note,omitempty"`
}

// Count says how many things were computed again.
type Count struct {
	What string `json:"what"`
	N    int    `json:"n"`
}

// Skip is something that was taken as it stands.
type Skip struct {
	What string `json:"what"`
	Why  string `json:"why"`
	N    int    `json:"n"`
}

// Report is what was found in one folder.
type Report struct {
	Experiment    string       `json:"experiment,omitempty"`
	RunKey        string       `json:"run_key,omitempty"`
	Simulated     bool         `json:"simulated"`
	WrittenBy     string       `json:"written_by,omitempty"` // version of the program that wrote the folder
	Partial       bool         `json:"partial,omitempty"`    // it has a journal: the run is not finished
	Differences   []Difference `json:"differences"`
	Recomputed    []Count      `json:"recomputed"`
	NotRecomputed []Skip       `json:"not_recomputed"`
}

// OK reports whether everything that was looked at is as it should be.
func (r *Report) OK() bool { return len(r.Differences) == 0 }

// Folder verifies one results folder. The error is ErrNoResult, result.ErrSchema (a document of another version, which
// this program cannot judge), or that of the file system; whatever else is wrong with a folder is a difference.
func Folder(fsys fs.FS, o Options) (*Report, error) {
	v, err := run(fsys, o)
	if err != nil {
		return nil, err
	}
	return v.report, nil
}

func run(fsys fs.FS, o Options) (*verifier, error) {
	f, err := open(fsys)
	if err != nil {
		return nil, err
	}
	v := &verifier{o: o, folder: f, report: &Report{Partial: f.journal, Differences: []Difference{}, Recomputed: []Count{}, NotRecomputed: []Skip{}}}
	if err := v.all(); err != nil {
		return nil, err
	}
	return v, nil
}

// verifier is one folder on its way.
type verifier struct {
	o      Options
	folder *folder
	report *Report

	stored *result.Run     // as it stands
	tree   any             // the same, as JSON
	again  *result.Run     // what is computed again, in place of what was stored
	series []engine.Series // nil = the engine is not known
	made   []derive.File   // the rendered files
	blind  bool            // some evidence cannot be read: what follows from all of it is not computed again
}

func (v *verifier) differ(d Difference) {
	d.Stored, d.Again = clip(d.Stored), clip(d.Again)
	v.report.Differences = append(v.report.Differences, d)
}

func (v *verifier) count(what string, n int) {
	for i := range v.report.Recomputed {
		if v.report.Recomputed[i].What == what {
			v.report.Recomputed[i].N += n
			return
		}
	}
	v.report.Recomputed = append(v.report.Recomputed, Count{what, n})
}

func (v *verifier) skip(what, why string) {
	for i := range v.report.NotRecomputed {
		if s := &v.report.NotRecomputed[i]; s.What == what && s.Why == why {
			s.N++
			return
		}
	}
	v.report.NotRecomputed = append(v.report.NotRecomputed, Skip{what, why, 1})
}

func clip(s string) string {
	const most = 200
	if len(s) > most {
		return string(bytes.ToValidUTF8([]byte(s[:most]), nil)) + "..."
	}
	return s
}

// all goes from what nothing else hangs on to what hangs on everything.
func (v *verifier) all() error {
	doc, ok, err := v.document()
	if !ok || err != nil {
		return err
	}
	if err := v.files(); err != nil {
		return err
	}
	if v.again, err = result.Decode(doc); err != nil {
		return fmt.Errorf("read run.json: %w", err)
	}
	v.planned()
	v.skip("floor, host, tool, where, started, ended, synthetic", "what measured, and when, is in no file but run.json; what of it goes into the run key is checked with that")
	eng, known := v.o.Engine(v.again.Experiment.Engine.Name)
	if known {
		if err := v.starts(eng); err != nil {
			return err
		}
		v.series = eng.Series()
		v.again.Simulated = eng.Simulated()
	} else {
		v.skip("starts, trials[].server", fmt.Sprintf("this program knows no engine %q", clip(v.again.Experiment.Engine.Name)))
	}
	if err := v.trials(); err != nil {
		return err
	}
	if err := v.compare(OfEvidence); err != nil {
		return err
	}
	if v.blind {
		v.skip("checks, cells, gates, verdicts and rendered files", "they follow from evidence that cannot be read")
		return nil
	}
	return v.derived()
}

// document reads run.json and compares it with what this program writes for what it read. ok is false when there is
// nothing to go on with.
func (v *verifier) document() (doc []byte, ok bool, err error) {
	doc, err = v.folder.read(result.FileName)
	if err != nil {
		var bad *unreadable
		if errors.As(err, &bad) {
			v.differ(Difference{Kind: OfFile, File: result.FileName, Note: bad.Error()})
			return nil, false, nil
		}
		return nil, false, err
	}
	v.stored, err = result.Decode(doc)
	switch {
	case errors.Is(err, result.ErrSchema):
		return nil, false, err
	case err != nil:
		v.differ(Difference{Kind: OfDocument, File: result.FileName, Note: err.Error()})
		return nil, false, nil
	}
	v.report.Experiment, v.report.RunKey = v.stored.Experiment.Name, v.stored.RunKey
	v.report.Simulated, v.report.WrittenBy = v.stored.Simulated, v.stored.Tool.Version
	again, err := result.Marshal(v.stored)
	if err != nil {
		v.differ(Difference{Kind: OfDocument, File: result.FileName, Note: err.Error()})
		return nil, false, nil
	}
	if v.tree, err = parseTree(again); err != nil {
		return nil, false, fmt.Errorf("read run.json: %w", err)
	}
	v.canonical(doc, again)
	return doc, true, nil
}

// canonical names where a document is not as it would be written.
func (v *verifier) canonical(doc, again []byte) {
	v.count("bytes of run.json", len(doc))
	if bytes.Equal(doc, again) {
		return
	}
	n := len(v.report.Differences)
	if tree, err := parseTree(doc); err == nil {
		diffTree("", "", tree, v.tree, func(path, about, stored, computed string) {
			v.differ(Difference{Kind: OfDocument, File: result.FileName, Path: path, About: about, Stored: stored, Again: computed,
				Note: "not a field of schema " + result.Schema + ", or not in its form"})
		})
	}
	if len(v.report.Differences) == n {
		d := firstLine(doc, again)
		d.Kind, d.File, d.Note = OfDocument, result.FileName, "the same values in another form: order, spaces or numbers"
		v.differ(d)
	}
}

// conclusions are the parts of a trial and of the plan that rules make of numbers. A number in them is evidence.
var (
	conclusions = regexp.MustCompile(`^trials\[\d+\]\.(slo|reconciliation)|^(warnings|plan\.estimate)`)
	numbers     = regexp.MustCompile(`^trials\[\d+\]\.slo\[\d+\]\.(value|samples|query)$`)
)

// kindAt tells conclusions from evidence among what is compared first. A field that the document does not have at all is
// one that the schema did not have when it was written.
func kindAt(kind Kind, path, stored string) Kind {
	if conclusions.MatchString(path) && !numbers.MatchString(path) || stored == absent && !strings.HasSuffix(path, "]") {
		return OfDerived
	}
	return kind
}

// compare names where the document that was computed again differs from the stored one, but for what was named before.
func (v *verifier) compare(kind Kind) error {
	b, err := result.Marshal(v.again)
	if err != nil { // a number out of all bounds
		v.blind = true
		v.differ(Difference{Kind: kind, File: result.FileName, Note: "computed again it has a value that JSON cannot hold: " + err.Error()})
		return nil
	}
	tree, err := parseTree(b)
	if err != nil {
		return fmt.Errorf("read what was recomputed: %w", err)
	}
	diffTree("", "", v.tree, tree, func(path, about, stored, computed string) {
		if !slices.ContainsFunc(v.report.Differences, func(d Difference) bool {
			return d.File == result.FileName && d.Path == path && d.Kind != OfDocument
		}) {
			v.differ(Difference{Kind: kindAt(kind, path, stored), File: result.FileName, Path: path, About: about, Stored: stored, Again: computed})
		}
	})
	return nil
}
