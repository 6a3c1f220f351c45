package main_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// benchctl is the program under test, built as it ships: static and without cgo.
var benchctl string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "benchctl-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	benchctl = filepath.Join(dir, "benchctl")
	build := exec.Command("go", "build", "-o", benchctl, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build benchctl: %v\n%s", err, out)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// code CODES PROGRAM ARGS...: the program ends with one of the exit codes, such as 2 or 0,3.
func code(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code CODES PROGRAM ARGS...")
	}
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if !slices.Contains(strings.Split(args[0], ","), strconv.Itoa(got)) {
		ts.Fatalf("exit code %d, want %s", got, args[0])
	}
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}

func TestScripts(t *testing.T) {
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", filepath.Dir(benchctl)+string(os.PathListSeparator)+env.Getenv("PATH"))
			env.Setenv("ROOT", root)
			env.Setenv("EXPERIMENTS", filepath.Join(root, "experiments"))
			env.Setenv("BAD", filepath.Join(root, "runner/spec/testdata/bad"))
			// VictoriaMetrics is built once per user, not once per script.
			env.Setenv("XDG_CACHE_HOME", cache)
			env.Setenv("NO_COLOR", "1")
			port, err := freePort()
			env.Setenv("PORT", port)
			if err != nil {
				return err
			}
			return nil
		},
		Cmds:          map[string]func(ts *testscript.TestScript, neg bool, args []string){"code": code},
		UpdateScripts: os.Getenv("BENCH_UPDATE") != "",
	})
}
