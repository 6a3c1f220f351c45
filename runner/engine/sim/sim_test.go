package sim_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"h100-inference-control-plane/runner/engine"
	"h100-inference-control-plane/runner/engine/enginetest"
	"h100-inference-control-plane/runner/engine/sim"
	"h100-inference-control-plane/runner/engine/vllm"
)

func TestPure(t *testing.T) {
	enginetest.Pure(t, sim.Engine{}, []string{"/opt/benchctl", "sim"}, "0.25.1")
}

// TestRecorded: the simulation speaks vLLM's language, so it reads what vLLM says.
func TestRecorded(t *testing.T) {
	enginetest.Recorded(t, sim.Engine{}, os.DirFS("../vllm/testdata/0.25.1"))
}

func TestName(t *testing.T) {
	if e := (sim.Engine{}); e.Name() != "sim" || !e.Simulated() {
		t.Errorf("Name() = %q, Simulated() = %v", e.Name(), e.Simulated())
	}
}

func launch(s engine.Sim) engine.Launch {
	return engine.Launch{
		Binary: []string{"/opt/benchctl", "sim"}, Model: engine.Model{Name: "org/m"}, Version: "0.25.1", Host: "127.0.0.1", Port: 8000, Sim: s,
		Flags: []engine.Flag{{Name: "enable-prefix-caching", Value: false}, {Name: "max-model-len", Value: int64(8192)}},
	}
}

func TestCommand(t *testing.T) {
	for _, x := range []struct {
		sim  engine.Sim
		want string
	}{
		{engine.Sim{}, ""},
		{engine.Sim{Profile: "h200", Speed: 0.5, Faults: []string{"die-after=40", "hang"}}, " --profile h200 --speed 0.5 --fault die-after=40 --fault hang"},
	} {
		l := launch(x.sim)
		got, err := sim.Engine{}.Command(l)
		if err != nil {
			t.Fatal(err)
		}
		l.Binary = []string{"vllm"}
		real, err := vllm.Engine{}.Command(l)
		if err != nil {
			t.Fatal(err)
		}
		want := "/opt/benchctl sim" + x.want + " --version 0.25.1 " + strings.Join(real.Argv[1:], " ")
		if g := strings.Join(got.Argv, " "); g != want {
			t.Errorf("Command(%+v)\n got %s\nwant %s", x.sim, g, want)
		}
		if !slices.Equal(l.Binary, []string{"vllm"}) {
			t.Errorf("the launch's binary became %q", l.Binary)
		}
	}
}

func TestCommandFailure(t *testing.T) {
	for _, s := range []engine.Sim{{Speed: -1}, {Faults: []string{""}}, {Faults: []string{"--port"}}} {
		if got, err := (sim.Engine{}).Command(launch(s)); err == nil {
			t.Errorf("Command(%+v) = %q without an error", s, got.Argv)
		}
	}
	l := launch(engine.Sim{})
	l.Binary = nil
	if got, err := (sim.Engine{}).Command(l); err == nil || !strings.Contains(err.Error(), "sim") {
		t.Errorf("no binary: %q, %v", got.Argv, err)
	}
}
