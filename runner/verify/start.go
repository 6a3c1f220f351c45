package verify

import (
	"fmt"
	"slices"
	"strings"

	"h100-inference-control-plane/runner/derive"
	"h100-inference-control-plane/runner/engine"
	"h100-inference-control-plane/runner/result"
)

// starts reads the engine's settings again where the folder has them. Of several attempts at a start only the last one's
// are there.
func (v *verifier) starts(eng engine.Engine) error {
	last := map[string]int{}
	for i, s := range v.again.Starts {
		file := infoFile(s)
		if k, had := last[file]; !had || s.Attempt > v.again.Starts[k].Attempt {
			last[file] = i
		}
	}
	for i := range v.again.Starts {
		s := &v.again.Starts[i]
		v.skip("starts[].version, starts[].argv, starts[].facts", "what the engine said besides its settings is in its log only in parts")
		v.skip("starts[].began, starts[].ready_seconds, starts[].engine_seconds, starts[].error", "how the start went is in no file but run.json")
		v.log(s)
		file := infoFile(*s)
		_, there := v.folder.plain[file]
		switch {
		case last[file] != i:
			v.skip("starts[].effective", "the settings of an earlier attempt are in no file")
		case s.Effective == nil && !there:
		default:
			if err := v.effective(s, file, eng); err != nil {
				return err
			}
		}
	}
	return nil
}

// log is the file that the engine's log is in.
func (v *verifier) log(s *result.Start) {
	if s.Log == "" {
		return
	}
	s.Log = fmt.Sprintf("server_%s_%d.log", s.Config, s.Repeat)
	if _, there := v.folder.plain[s.Log]; !there && !v.folder.bad[s.Log] {
		v.broken(s.Log, &unreadable{"it is not there"})
	}
}

func infoFile(s result.Start) string {
	return fmt.Sprintf("server_info/%s_%d.json.gz", s.Config, s.Repeat)
}

func (v *verifier) effective(s *result.Start, file string, eng engine.Engine) error {
	b, ok, err := v.evidence(file)
	if !ok || err != nil {
		return err
	}
	if b, err = unpack(b); err != nil {
		v.broken(file, err)
		return nil
	}
	got, err := eng.Effective(b)
	if err != nil {
		v.broken(file, err)
		return nil
	}
	v.count("engine settings", len(got))
	s.Effective = got
	v.differences(s)
	return nil
}

// differences lists again what is effective otherwise than requested. A value with a path in it was redacted after it was
// compared: whether it differed is taken as it stands.
func (v *verifier) differences(s *result.Start) {
	var again []result.Difference
	e := v.again.Experiment
	if s.Version != e.Engine.Version {
		again = append(again, result.Difference{Flag: "version", Requested: e.Engine.Version, Effective: s.Version})
	}
	listed := func(flag string) bool {
		return slices.ContainsFunc(s.Differs, func(d result.Difference) bool { return d.Flag == flag })
	}
	for _, d := range derive.Differences(e.Merged(s.Config), s.Effective) {
		if text, is := d.Effective.(string); is && strings.ContainsAny(text, "/<[") && !listed(d.Flag) {
			v.skip("starts[].differs: "+d.Flag, "its value was redacted after it was compared")
			continue
		}
		again = append(again, d)
	}
	s.Differs = again
}
