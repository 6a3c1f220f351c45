package verify

import (
	"bytes"
	"fmt"
	"strings"

	"h100-inference-control-plane/runner/derive"
	"h100-inference-control-plane/runner/record"
	"h100-inference-control-plane/runner/result"
)

// derived concludes again, with the code that `run` concludes with, and renders every file.
func (v *verifier) derived() error {
	read := func(trial string) ([]record.Record, error) {
		recs, ok, err := v.records(trial)
		if err == nil && !ok {
			err = fmt.Errorf("%s cannot be read", requestsFile(trial))
		}
		return recs, err
	}
	if err := derive.Conclude(v.again, read); err != nil {
		return err
	}
	v.ended()
	checks := len(v.again.Checks)
	for _, t := range v.again.Trials {
		checks += len(t.Checks)
	}
	v.count("checks", checks)
	v.count("cells", len(v.again.Cells))
	v.count("gates", len(v.again.Gates))
	v.count("verdicts", 1+len(v.again.Trials)+len(v.again.Cells))
	if err := v.compare(OfDerived); err != nil || v.blind {
		return err
	}
	files, err := derive.Files(v.again, read)
	if err != nil {
		v.differ(Difference{Kind: OfRendered, File: result.FileName, Note: err.Error()})
		return nil
	}
	v.made = files
	for _, f := range files {
		v.rendered(f)
	}
	return nil
}

// ended keeps how a run ended that did not measure everything: by the user, or because the machinery failed. Neither
// follows from what was measured.
func (v *verifier) ended() {
	done, all := 0, len(v.again.Trials)
	for _, t := range v.again.Trials {
		if t.Outcome == result.Measured {
			done++
		}
	}
	if done == all {
		return
	}
	s := v.stored
	interrupted := s.Verdict == result.Inconclusive && strings.HasPrefix(s.Reason, fmt.Sprintf("interrupted: %d of %d trials are measured", done, all))
	if interrupted || s.Verdict == result.Error && v.again.Verdict == result.Error {
		v.again.Verdict, v.again.Reason = s.Verdict, s.Reason
		v.skip("verdict and reason of the run", "it ended before everything was measured; why is in no file")
	}
}

// rendered compares a file with its bytes.
func (v *verifier) rendered(f derive.File) {
	v.count("rendered files", 1)
	have, err := v.folder.read(f.Path)
	switch {
	case err != nil && v.folder.bad[f.Path]: // named already
	case err != nil:
		v.differ(Difference{Kind: OfRendered, File: f.Path, Note: err.Error()})
	case !bytes.Equal(have, f.Bytes):
		d := firstLine(have, f.Bytes)
		d.Kind, d.File = OfRendered, f.Path
		v.differ(d)
	}
}
