package verify_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"h100-inference-control-plane/runner/engine/catalog"
	"h100-inference-control-plane/runner/record"
	"h100-inference-control-plane/runner/result"
	"h100-inference-control-plane/runner/verify"
)

// sound is a small results folder of the simulated engine.
const sound = "testdata/sound"

// read puts a folder into memory, where tests may change it.
func read(t testing.TB, dir string) fstest.MapFS {
	t.Helper()
	out := fstest.MapFS{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		out[filepath.ToSlash(rel)] = &fstest.MapFile{Data: b}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func check(t testing.TB, fsys fs.FS) *verify.Report {
	t.Helper()
	r, err := verify.Folder(fsys, verify.Options{Engine: catalog.Get})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestSound verifies a folder with every kind of evidence that there is. With BENCH_UPDATE what follows from its
// evidence is made anew first.
func TestSound(t *testing.T) {
	if os.Getenv("BENCH_UPDATE") != "" {
		files, err := verify.Refresh(read(t, sound), verify.Options{Engine: catalog.Get})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if err := os.WriteFile(filepath.Join(sound, f.Path), f.Bytes, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	r := check(t, read(t, sound))
	for _, d := range r.Differences {
		t.Errorf("%+v", d)
	}
	got := map[string]int{}
	for _, c := range r.Recomputed {
		got[c.What] = c.N
	}
	for _, what := range []string{"files", "run keys", "planned trials", "engine settings", "client summaries", "requests", "workloads", "engine readings",
		"reconciled quantities", "objectives", "checks", "cells", "gates", "verdicts", "rendered files"} {
		if got[what] == 0 {
			t.Errorf("no %s were computed again", what)
		}
	}
	for _, s := range r.NotRecomputed {
		if s.What == "" || s.Why == "" || s.N == 0 {
			t.Errorf("taken as it stands without a name or a reason: %+v", s)
		}
	}
}

// fix makes the list of files true again, as one who changes a folder on purpose would, and writes run.json.
func fix(t *testing.T, f fstest.MapFS, change func(*result.Run)) {
	t.Helper()
	run, err := result.Decode(f["run.json"].Data)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(run)
	}
	list(t, run, f)
}

// list writes run.json with the files as they are.
func list(t *testing.T, run *result.Run, f fstest.MapFS) {
	t.Helper()
	for i := range run.Files {
		x := &run.Files[i]
		if f[x.Path] == nil {
			continue
		}
		sum := sha256.Sum256(f[x.Path].Data)
		x.Bytes, x.SHA256 = int64(len(f[x.Path].Data)), hex.EncodeToString(sum[:])
	}
	b, err := result.Marshal(run)
	if err != nil {
		t.Fatal(err)
	}
	f["run.json"] = &fstest.MapFile{Data: b}
}

// replace changes a text file.
func replace(t *testing.T, f fstest.MapFS, path, old, with string) {
	t.Helper()
	if !bytes.Contains(f[path].Data, []byte(old)) {
		t.Fatalf("%s does not have %q", path, old)
	}
	f[path] = &fstest.MapFile{Data: bytes.Replace(f[path].Data, []byte(old), []byte(with), 1)}
}

func unpack(t *testing.T, b []byte) []byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func pack(t *testing.T, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := z.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// records changes the requests of a trial and stores them well-formed.
func records(t *testing.T, f fstest.MapFS, trial string, change func([]record.Record) []record.Record) {
	t.Helper()
	path := "requests/" + trial + ".csv.gz"
	recs, err := record.Read(bytes.NewReader(f[path].Data))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := record.Write(&out, change(recs)); err != nil {
		t.Fatal(err)
	}
	f[path] = &fstest.MapFile{Data: out.Bytes()}
}

const (
	trialA   = "graphs-c2-1"
	requests = "requests/" + trialA + ".csv.gz"
	scrape   = "metrics/" + trialA + "-t1.prom.gz"
)

// index is the place of a trial in the document.
func index(run *result.Run, id string) int {
	return slices.IndexFunc(run.Trials, func(t result.Trial) bool { return t.ID == id })
}

// TestTampered changes one thing at a time. want is what is named, as "kind file path": all of it and nothing else, where
// only is set; a change of evidence is also seen in what follows from it.
func TestTampered(t *testing.T) {
	f := func(name string, only bool, tamper func(*testing.T, fstest.MapFS), want ...string) {
		t.Run(name, func(t *testing.T) {
			folder := read(t, sound)
			tamper(t, folder)
			var got []string
			for _, d := range check(t, folder).Differences {
				got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s %s", d.Kind, d.File, d.Path)))
				if d.Stored == "" && d.Again == "" && d.Note == "" {
					t.Errorf("%s %s says neither values nor a note", d.File, d.Path)
				}
			}
			for _, w := range want {
				if !slices.Contains(got, w) {
					t.Errorf("%q is not named", w)
				}
			}
			if only && len(got) != len(want) || t.Failed() {
				t.Errorf("named: %q", got)
			}
		})
	}
	place := func(id, path string) string {
		run, err := result.Decode(read(t, sound)["run.json"].Data)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("run.json trials[%d].%s", index(run, id), path)
	}
	edit := func(change func(*result.Run)) func(*testing.T, fstest.MapFS) {
		return func(t *testing.T, f fstest.MapFS) { fix(t, f, change) }
	}
	trial := func(change func(*result.Trial)) func(*testing.T, fstest.MapFS) {
		return edit(func(run *result.Run) { change(&run.Trials[index(run, trialA)]) })
	}

	f("a byte of the requests", true, func(t *testing.T, f fstest.MapFS) {
		b := slices.Clone(f[requests].Data)
		b[len(b)/2] ^= 1
		f[requests] = &fstest.MapFile{Data: b}
	}, "file "+requests+" sha256")
	f("a truncated file", true, func(t *testing.T, f fstest.MapFS) {
		f[requests] = &fstest.MapFile{Data: f[requests].Data[:len(f[requests].Data)/2]}
	}, "file "+requests+" bytes")
	f("a truncated file that is listed so", true, func(t *testing.T, f fstest.MapFS) {
		f[requests] = &fstest.MapFile{Data: f[requests].Data[:len(f[requests].Data)/2]}
		fix(t, f, nil)
	}, "file "+requests)
	f("a removed scrape", true, func(t *testing.T, f fstest.MapFS) { delete(f, scrape) }, "file "+scrape)
	f("a removed scrape that is listed no more", true, func(t *testing.T, f fstest.MapFS) {
		delete(f, scrape)
		fix(t, f, func(run *result.Run) {
			run.Files = slices.DeleteFunc(run.Files, func(x result.File) bool { return x.Path == scrape })
		})
	}, "file "+scrape)
	f("a truncated scrape that is listed so", true, func(t *testing.T, f fstest.MapFS) {
		f[scrape] = &fstest.MapFile{Data: f[scrape].Data[:len(f[scrape].Data)-20]}
		fix(t, f, nil)
	}, "file "+scrape)
	f("an extra file", true, func(t *testing.T, f fstest.MapFS) { f["notes/x.txt"] = &fstest.MapFile{Data: []byte("x")} }, "file notes/x.txt")
	f("a symbolic link", true, func(t *testing.T, f fstest.MapFS) {
		f["spec.yaml"] = &fstest.MapFile{Data: f["spec.yaml"].Data, Mode: fs.ModeSymlink}
	}, "file spec.yaml")
	f("a path that leads out", true, edit(func(run *result.Run) {
		run.Files = append(run.Files, result.File{Path: "../../secret", Bytes: 1})
	}), fmt.Sprintf("file run.json files[%d].path", files(t)))
	f("a path from the root", true, edit(func(run *result.Run) {
		run.Files = append(run.Files, result.File{Path: "/etc/passwd", Bytes: 1})
	}), fmt.Sprintf("file run.json files[%d].path", files(t)))
	f("a file listed twice", true, edit(func(run *result.Run) { run.Files = append(run.Files, run.Files[0]) }), "file "+first(t))

	f("a digit of the report", true, func(t *testing.T, f fstest.MapFS) {
		b := slices.Clone(f["report.md"].Data)
		b[bytes.LastIndexAny(b, "0123456789")] = 'x'
		f["report.md"] = &fstest.MapFile{Data: b}
	}, "file report.md sha256", "rendered report.md line "+lastDigitLine(t))
	f("a digit of the report that is listed so", true, func(t *testing.T, f fstest.MapFS) {
		b := slices.Clone(f["report.md"].Data)
		b[bytes.LastIndexAny(b, "0123456789")] = 'x'
		f["report.md"] = &fstest.MapFile{Data: b}
		fix(t, f, nil)
	}, "rendered report.md line "+lastDigitLine(t))

	f("the run's verdict", true, edit(func(run *result.Run) { run.Verdict = "SUPERSEDED" }), "derived run.json verdict")
	f("a trial's verdict", true, trial(func(t *result.Trial) { t.Verdict = result.Error }), "derived "+place(trialA, "verdict"))
	f("a cell's median", true, edit(func(run *result.Run) { run.Cells[0].TTFTP50.Value *= 2 }), "derived run.json cells[0].ttft_p50.value")
	f("a gate", true, edit(func(run *result.Run) { run.Gates[0].Verdict = "SUPERSEDED" }), "derived run.json gates[0].verdict")
	f("a check that failed no more", true, trial(func(t *result.Trial) { t.Checks[1].Measured = "0 %" }), "derived "+place(trialA, "checks[1].measured"))
	f("a steady number", true, trial(func(t *result.Trial) { *t.Steady.OutputPerS *= 1.0000001 }), "derived "+place(trialA, "steady.output_tokens_per_second"))
	f("a client number in the last bit", true, trial(func(t *result.Trial) { t.Client.TTFT.P90 += t.Client.TTFT.P90 / (1 << 52) }), "evidence "+place(trialA, "client.ttft.p90"))
	f("a longer load", false, trial(func(t *result.Trial) { *t.Client.WallSeconds += 3e-6 }), "evidence "+place(trialA, "client.wall_seconds"))
	f("a counter", false, trial(func(t *result.Trial) { *t.Server.OutputTokens++ }), "evidence "+place(trialA, "server.output_tokens"))
	f("a mean of the engine", true, trial(func(t *result.Trial) { *t.Server.MeanQueue *= 1 + 1e-6 }), "evidence "+place(trialA, "server.mean_queue"))
	f("a restart denied", false, trial(func(t *result.Trial) { *t.Server.Restarted = true }), "evidence "+place(trialA, "server.restarted"))
	f("a reconciled number", true, trial(func(t *result.Trial) { *t.Agree[0].Agrees = false }), "derived "+place(trialA, "reconciliation[0].agrees"))
	f("an objective's value", true, trial(func(t *result.Trial) { *t.SLO[0].Value = 0.5 }), "evidence "+place(trialA, "slo[0].value"))
	f("an objective's query", true, trial(func(t *result.Trial) { t.SLO[0].Query = "1" }), "evidence "+place(trialA, "slo[0].query"))
	f("an objective's samples", true, trial(func(t *result.Trial) { *t.SLO[0].Samples++ }), "evidence "+place(trialA, "slo[0].samples"))
	f("an objective left out", false, trial(func(t *result.Trial) { t.SLO = t.SLO[:1] }), "derived "+place(trialA, "slo[1]"), "derived "+place(trialA, "slo[2]"))
	f("a seed", false, trial(func(t *result.Trial) { t.Seed++ }), "evidence "+place(trialA, "seed"))
	f("the workload's hash", true, trial(func(t *result.Trial) { t.Workload = strings.Repeat("0", 64) }), "evidence "+place(trialA, "workload_sha256"))
	f("the prompts", true, trial(func(t *result.Trial) { t.Prompts.Distinct = 1 }), "evidence "+place(trialA, "prompts.distinct"))
	f("the window's length", true, trial(func(t *result.Trial) { t.Window.Seconds *= 2 }), "evidence "+place(trialA, "window.seconds"))
	f("a simulation as a measurement", true, edit(func(run *result.Run) { run.Simulated = false }), "evidence run.json simulated")
	f("the run key", false, edit(func(run *result.Run) { run.RunKey = strings.Repeat("0", 64) }), "evidence run.json run_key")
	f("another machine", false, edit(func(run *result.Run) { run.Host.Fingerprint = strings.Repeat("0", 64) }), "evidence run.json run_key")
	f("the bound of an objective", false, edit(func(run *result.Run) { run.Experiment.SLO[0].Max *= 2 }), "evidence run.json run_key")
	f("an effective flag", false, edit(func(run *result.Run) { run.Starts[0].Effective["enable-prefix-caching"] = true }), "evidence run.json starts[0].effective.enable-prefix-caching")
	f("a difference hidden", true, edit(func(run *result.Run) {
		run.Starts[0].Differs = []result.Difference{{Flag: "x", Requested: true, Effective: false}}
	}), "evidence run.json starts[0].differs")
	f("the order of the starts", true, edit(func(run *result.Run) { slices.Reverse(run.Plan.Order) }), "evidence run.json plan.order[0]", "evidence run.json plan.order[1]")
	f("a trial left out", false, edit(func(run *result.Run) { run.Trials = run.Trials[:1] }), "evidence run.json trials")
	f("two trials in each other's place", false, edit(func(run *result.Run) {
		run.Trials[0], run.Trials[1] = run.Trials[1], run.Trials[0]
	}), "evidence run.json trials[0]", "evidence run.json trials[1]")
	f("the requests of two trials exchanged", false, func(t *testing.T, f fstest.MapFS) {
		other := "requests/eager-c2-1.csv.gz"
		f[requests], f[other] = f[other], f[requests]
		fix(t, f, nil)
	}, "evidence "+place(trialA, "client.wall_seconds"), "evidence "+place("eager-c2-1", "client.wall_seconds"))
	f("a slow request made quick", false, func(t *testing.T, f fstest.MapFS) {
		records(t, f, trialA, func(recs []record.Record) []record.Record {
			recs[3].FirstToken = recs[3].Sent + 1
			return recs
		})
		fix(t, f, nil)
	}, "evidence "+place(trialA, "client.ttft.min"))
	f("a request left out", false, func(t *testing.T, f fstest.MapFS) {
		records(t, f, trialA, func(recs []record.Record) []record.Record { return recs[1:] })
		fix(t, f, nil)
	}, "evidence "+place(trialA, "client.requests"), "evidence "+place(trialA, "workload_sha256"))
	f("a counter in a scrape", false, func(t *testing.T, f fstest.MapFS) {
		text := string(unpack(t, f[scrape].Data))
		at := strings.Index(text, "\nvllm:generation_tokens_total{")
		end := at + 1 + strings.Index(text[at+1:], "\n")
		f[scrape] = &fstest.MapFile{Data: pack(t, []byte(text[:end]+"1"+text[end:]))}
		fix(t, f, nil)
	}, "evidence "+place(trialA, "server.output_tokens"))

	f("an unknown field", true, func(t *testing.T, f fstest.MapFS) {
		replace(t, f, "run.json", `"simulated": true,`, `"simulated": true,`+"\n"+` "extra": 1,`)
	}, "document run.json extra")
	f("another layout", true, func(t *testing.T, f fstest.MapFS) {
		replace(t, f, "run.json", `"simulated": true,`, `"simulated":  true,`)
	}, "document run.json line 4")
	f("something after the document", true, func(t *testing.T, f fstest.MapFS) {
		f["run.json"] = &fstest.MapFile{Data: append(slices.Clone(f["run.json"].Data), "{}"...)}
	}, "document run.json")
	f("half a document", true, func(t *testing.T, f fstest.MapFS) {
		f["run.json"] = &fstest.MapFile{Data: f["run.json"].Data[:1000]}
	}, "document run.json")
}

func files(t *testing.T) int {
	run, err := result.Decode(read(t, sound)["run.json"].Data)
	if err != nil {
		t.Fatal(err)
	}
	return len(run.Files)
}

func first(t *testing.T) string {
	run, err := result.Decode(read(t, sound)["run.json"].Data)
	if err != nil {
		t.Fatal(err)
	}
	return run.Files[0].Path
}

func lastDigitLine(t *testing.T) string {
	b := read(t, sound)["report.md"].Data
	return fmt.Sprint(1 + bytes.Count(b[:bytes.LastIndexAny(b, "0123456789")], []byte("\n")))
}

func TestFolderFailure(t *testing.T) {
	f := func(folder fstest.MapFS, want error) {
		t.Helper()
		if _, err := verify.Folder(folder, verify.Options{Engine: catalog.Get}); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	f(fstest.MapFS{}, verify.ErrNoResult)
	f(fstest.MapFS{"run.json/x": &fstest.MapFile{}}, verify.ErrNoResult)
	f(fstest.MapFS{"run.json": &fstest.MapFile{Data: []byte(`{"schema":"bench/result/v0"}`)}}, result.ErrSchema)
}

// TestRefresh makes what follows from the evidence anew, and never the evidence.
func TestRefresh(t *testing.T) {
	o := verify.Options{Engine: catalog.Get}
	folder := read(t, sound)
	if files, err := verify.Refresh(folder, o); err != nil || len(files) != 0 {
		t.Fatalf("of a sound folder: %d files, %v", len(files), err)
	}
	fix(t, folder, func(run *result.Run) {
		run.Verdict, run.Cells[0].TTFTP50.Value, run.Trials[0].Checks = result.Fail, 7, nil
	})
	folder["report.md"] = &fstest.MapFile{Data: []byte("another program's report")}
	delete(folder, "vllm-bench/"+trialA+".json")
	files, err := verify.Refresh(folder, o)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, x := range files {
		names = append(names, x.Path)
		folder[x.Path] = &fstest.MapFile{Data: x.Bytes}
	}
	if want := []string{"vllm-bench/" + trialA + ".json", "report.md", "run.json"}; !slices.Equal(names, want) {
		t.Errorf("written anew: %q, want %q", names, want)
	}
	for path, x := range read(t, sound) {
		if folder[path] == nil || !bytes.Equal(folder[path].Data, x.Data) {
			t.Errorf("%s is not what it was", path)
		}
	}
	older := read(t, sound)
	replace(t, older, "run.json", `  "cpu_quota": null,`+"\n", "")
	if files, err := verify.Refresh(older, o); err != nil || len(files) != 1 || !bytes.Equal(files[0].Bytes, read(t, sound)["run.json"].Data) {
		t.Errorf("of a document without a field: %d files, %v", len(files), err)
	}
	for name, tamper := range map[string]func(f fstest.MapFS){
		"a number":   func(f fstest.MapFS) { fix(t, f, func(run *result.Run) { run.Trials[0].Client.TTFT.P50 *= 2 }) },
		"a raw file": func(f fstest.MapFS) { delete(f, scrape) },
		"an extra":   func(f fstest.MapFS) { f["x"] = &fstest.MapFile{} },
		"a value":    func(f fstest.MapFS) { fix(t, f, func(run *result.Run) { *run.Trials[0].SLO[0].Value = 1 }) },
		"an unknown field": func(f fstest.MapFS) {
			replace(t, f, "run.json", `"simulated": true,`, `"simulated": true, "extra": 1,`)
		},
		"no document": func(f fstest.MapFS) { f["run.json"] = &fstest.MapFile{Data: []byte("{")} },
	} {
		folder := read(t, sound)
		tamper(folder)
		if files, err := verify.Refresh(folder, o); !errors.Is(err, verify.ErrEvidence) || len(files) > 0 {
			t.Errorf("%s: %d files, %v", name, len(files), err)
		}
	}
}

// FuzzFolder puts anything into the document and the evidence: nothing panics, and what was changed is named.
func FuzzFolder(f *testing.F) {
	base := read(f, sound)
	f.Add(base["run.json"].Data, base[requests].Data, base[scrape].Data)
	f.Add([]byte(`{"schema":"bench/result/v1","experiment":{},"trials":[{"id":"graphs-c2-1","outcome":"measured","client":{},"window":{}}]}`), []byte("x"), []byte("y"))
	f.Add([]byte(`{"schema":"bench/result/v1","experiment":{"starts":100,"configs":[{}],"load":{"closed":{"concurrency":[1]}}},"starts":[{}],"cells":[{}],"gates":[{}]}`), []byte{}, []byte{})
	f.Fuzz(func(t *testing.T, doc, recs, prom []byte) {
		folder := fstest.MapFS{}
		for path, x := range base {
			folder[path] = x
		}
		folder[requests], folder[scrape] = &fstest.MapFile{Data: recs}, &fstest.MapFile{Data: prom}
		folder["run.json"] = &fstest.MapFile{Data: doc}
		if run, err := result.Decode(doc); err == nil {
			list(t, run, folder)
		}
		r, err := verify.Folder(folder, verify.Options{Engine: catalog.Get})
		if err != nil {
			if !errors.Is(err, result.ErrSchema) {
				t.Fatal(err)
			}
			return
		}
		same := bytes.Equal(recs, base[requests].Data) && bytes.Equal(prom, base[scrape].Data) && bytes.Equal(folder["run.json"].Data, base["run.json"].Data)
		if same != r.OK() && same {
			t.Fatalf("a sound folder: %+v", r.Differences)
		}
	})
}
