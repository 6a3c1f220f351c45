package runner_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"testing"
)

const module = "h100-inference-control-plane/runner/"

// mayImport is the architecture: which packages of the runner a package may import, besides itself and its
// sub-folders' parents named here. Tests may import more: the suites (enginetest, provisiontest, measuretest) and sim.
//
// Vocabulary is pure and small; decisions turn documents into documents; effects touch the world and never import one
// another. The files are read with go/parser, because a test that asks `go list` can pass from the cache after a
// forbidden import was added.
var mayImport = map[string][]string{
	// vocabulary
	"arrival":         {},
	"engine":          {},
	"engine/flags":    {},
	"engine/vllm":     {"engine", "engine/flags"},
	"engine/sim":      {"engine", "engine/vllm"},
	"engine/catalog":  {"engine", "engine/sim", "engine/vllm"},
	"workload":        {},
	"record":          {},
	"metric":          {},
	"stats":           {},
	"query":           {},
	"redact":          {},
	"provision":       {"engine"},
	"sim/model":       {},
	"attribute":       {"stats"},
	"capacity":        {"stats"},
	"stats/statstest": {"stats"},
	// decisions
	"spec":   {"arrival", "attribute", "engine", "engine/flags", "query", "workload"},
	"plan":   {"capacity", "engine", "sim/model", "spec"},
	"result": {"attribute", "engine", "plan", "record", "spec", "stats"},
	"judge":  {"attribute", "capacity", "engine", "plan", "query", "record", "result", "spec", "stats"},
	// steady and validity: from records and documents to what may be believed
	"steady":   {"record", "result", "stats"},
	"validity": {"engine", "record", "result", "spec", "stats", "steady", "workload"},
	// derive is all that follows from what was recorded; verify calls it again on a folder, and reads scrapes as measure does
	"derive":  {"engine", "judge", "query", "record", "report", "result", "validity"},
	"verify":  {"derive", "engine", "judge", "measure", "plan", "query", "record", "result", "spec", "workload"},
	"compare": {"engine", "judge", "result", "spec", "stats", "validity", "workload"},
	"report":  {"attribute", "compare", "engine", "judge", "metric", "plan", "record", "result", "spec", "stats"},
	// effects
	"child":                     {},
	"host":                      {"result"},
	"host/sample":               {"child", "result", "stats"},
	"openai":                    {"engine", "workload"},
	"provision/process":         {"child", "engine", "provision", "provision/internal/health"},
	"provision/endpoint":        {"engine", "provision", "provision/internal/health"},
	"provision/internal/health": {},
	"provision/provisiontest":   {"child", "engine", "provision"},
	"engine/enginetest":         {"engine", "openai", "workload"},
	"load":                      {"load/sse", "record", "workload"},
	"load/sse":                  {},
	"load/stub":                 {},
	"load/calibrate":            {"arrival", "load", "load/sse", "load/stub", "record", "result", "workload"},
	"measure":                   {"child", "engine", "query", "record"},
	"measure/measuretest":       {"measure"},
	"sim":                       {"engine", "engine/flags", "sim/model"},
	"sim/trial":                 {"sim/model"},
	"sim/virtual":               {"arrival", "derive", "judge", "plan", "record", "result", "sim", "sim/model", "spec", "workload"},
	// wiring
	"": {"arrival", "capacity", "derive", "engine", "host/sample", "judge", "load", "measure", "openai", "plan", "provision", "query", "record", "redact", "result", "spec", "stats", "validity", "workload"},
}

// only names third-party packages that one folder alone may import, so that each technology has one adapter.
var only = map[string][]string{
	"github.com/spf13/cobra":                  {"cmd/benchctl"},
	"github.com/goccy/go-yaml":                {"spec"},
	"github.com/VictoriaMetrics/metricsql":    {"query"},
	"github.com/schollz/progressbar/v3":       {"cmd/benchctl"},
	"github.com/invopop/jsonschema":           {"spec", "result"},
	"github.com/prometheus/client_golang/api": {"measure"},
	"github.com/prometheus/procfs":            {"host/sample"},
	"gonum.org/v1/gonum":                      {"stats"},
}

func TestImports(t *testing.T) {
	seen := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.Contains(path, "testdata") {
			return err
		}
		pkg := filepath.ToSlash(filepath.Dir(path))
		if pkg == "." {
			pkg = ""
		}
		seen[pkg] = true
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, s := range f.Imports {
			name, err := strconv.Unquote(s.Path.Value)
			if err != nil {
				return err
			}
			check(t, path, pkg, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for pkg := range seen {
		if _, listed := mayImport[pkg]; !listed && pkg != "cmd/benchctl" {
			t.Errorf("runner/%s is not in the table of imports_test.go: say which packages it may import", pkg)
		}
	}
	for pkg := range mayImport {
		if !seen[pkg] {
			t.Errorf("the table names runner/%s, which does not exist", pkg)
		}
	}
}

func check(t *testing.T, path, pkg, imported string) {
	t.Helper()
	for lib, folders := range only {
		if strings.HasPrefix(imported, lib) && !contains(folders, pkg) {
			t.Errorf("%s imports %s, which only runner/%s may", path, imported, strings.Join(folders, ", "))
		}
	}
	inner, ours := strings.CutPrefix(imported, module)
	if !ours || pkg == "cmd/benchctl" || strings.HasSuffix(path, "_test.go") {
		return
	}
	if !contains(mayImport[pkg], inner) {
		allowed := append([]string(nil), mayImport[pkg]...)
		sort.Strings(allowed)
		t.Errorf("%s imports runner/%s; runner/%s may import only %v", path, inner, pkg, allowed)
	}
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

// TestNoPrintOrExit keeps output and the end of the process where they belong: in the command.
func TestNoPrintOrExit(t *testing.T) {
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		pkg := filepath.ToSlash(filepath.Dir(path))
		if pkg == "cmd/benchctl" {
			return nil
		}
		for _, use := range selectors(t, path) {
			switch {
			case strings.HasPrefix(use, "fmt.Print"):
				t.Errorf("%s uses %s: return a value or take a writer", path, use)
			case use == "os.Exit" && !mayExit[pkg]:
				t.Errorf("%s uses os.Exit: only main, and child processes of our own, end the process", path)
			case use == "time.Now" && pure[pkg]:
				t.Errorf("%s uses time.Now: a decision takes times as values", path)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// mayExit are packages that hold the main of a helper process.
var mayExit = map[string]bool{"child": true, "load/calibrate": true, "sim": true}

// pure packages have no clock.
var pure = map[string]bool{
	"arrival": true, "engine": true, "engine/vllm": true, "engine/sim": true, "workload": true, "record": true, "metric": true,
	"stats": true, "query": true, "redact": true, "spec": true, "plan": true, "judge": true, "report": true, "sim/model": true, "steady": true, "validity": true,
	"attribute": true, "sim/trial": true, "derive": true, "verify": true, "compare": true, "capacity": true,
}
