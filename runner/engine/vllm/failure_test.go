package vllm_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"h100-inference-control-plane/runner/engine/vllm"
)

// TestFailureReasonRecorded reads the logs of real servers. Those in failures/ were provoked: an unknown option, a value
// for a boolean, a bad value, no model at the path, no such repository, no weights in the folder, a taken port, a
// context that is longer than the model's, a KV cache that is too small.
func TestFailureReasonRecorded(t *testing.T) {
	want := map[string]string{
		"0.25.1/crash.log":               "RuntimeError: CPU Generator does not use offset",
		"0.25.1/eager.log":               "[shutdown] API server: shutdown triggered",
		"0.25.1/optimized_cold.log":      "[shutdown] EngineCore: trigger received signal=SIGTERM",
		"0.32.0/cpu.log":                 "[shutdown] API server: shutdown triggered",
		"failures/0.25.1-bad_arg.log":    "unrecognized arguments: --no-such-flag 3",
		"failures/0.25.1-bool_value.log": "unrecognized arguments: true",
		"failures/0.25.1-bad_value.log":  "argument --max-model-len: invalid human_readable_int_or_auto value: 'banana'",
		"failures/0.25.1-no_model.log":   "HFValidationError: Repo id must be in the form 'repo_name' or 'namespace/repo_name': '/models/no-such-model'.",
		"failures/0.25.1-no_repo.log":    "LocalEntryNotFoundError: Cannot find an appropriate cached snapshot folder",
		"failures/0.25.1-no_weights.log": "RuntimeError: Cannot find any model weights with `/models/tiny-qwen3`",
		"failures/0.25.1-port_taken.log": "OSError: [Errno 98] Address already in use",
		"failures/0.25.1-len.log":        "ValidationError: 1 validation error for ModelConfig: Value error, User-specified max_model_len (9000) is greater than",
		"failures/0.25.1-kv.log":         "ValueError: To serve at least one request with the model's max seq len (4096), (0.0 GiB KV cache is needed, which is larger than the available KV cache memory",
		"failures/0.32.0-bad_arg.log":    "unrecognized arguments: --no-such-flag 3",
		"failures/0.32.0-no_model.log":   "HFValidationError: Repo id must be in the form",
		"failures/0.32.0-port_taken.log": "OSError: [Errno 98] Address already in use",
		"failures/0.32.0-len.log":        "ValidationError: 1 validation error for ModelConfig: Value error, User-specified max_model_len (9000) is greater than",
		"failures/0.32.0-kv.log":         "ValueError: To serve at least one request with the model's max seq len (4096), (0.0 GiB KV cache is needed, which is larger than the available KV cache memory",
	}
	logs := readLogs(t)
	for name, w := range want {
		if got := (vllm.Engine{}).FailureReason([]byte(logs[name])); !strings.HasPrefix(got, w) {
			t.Errorf("%s: %q, want %q", name, got, w)
		}
	}
	for name := range logs {
		if _, ok := want[name]; !ok {
			t.Errorf("%s has no expected reason", name)
		}
	}
}

// TestFailureReason has what was not provoked: a GPU, other releases' wording, and logs that begin in the middle.
func TestFailureReason(t *testing.T) {
	const apiDead = "(APIServer pid=1) Traceback (most recent call last):\n(APIServer pid=1)   File \"a.py\", line 1, in f\n" +
		"(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore': 1}\n"
	core := func(lines ...string) string {
		return "(EngineCore_DP0 pid=2) ERROR 12-01 10:00:00 [core.py:1231] " + strings.Join(lines, "\n(EngineCore_DP0 pid=2) ERROR 12-01 10:00:00 [core.py:1231] ") + "\n"
	}
	for _, x := range []struct{ name, log, want string }{
		{"nothing", "", ""},
		{"a healthy log", "INFO:     Application startup complete.\nINFO:     127.0.0.1:1 - \"GET /health HTTP/1.1\" 200 OK\n", ""},
		{"only the pointer", apiDead, "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore': 1}"},
		{"out of memory, wrapped", core("EngineCore failed to start.", "Traceback (most recent call last):", "  File \"m.py\", line 3, in f",
			"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", "", "The above exception was the direct cause of the following exception:", "",
			"Traceback (most recent call last):", "  File \"n.py\", line 4, in g",
			"RuntimeError: CUDA out of memory occurred when warming up sampler with 1024 dummy requests. Please try lowering `max_num_seqs`") + apiDead,
			"RuntimeError: CUDA out of memory occurred when warming up sampler with 1024 dummy requests. Please try lowering `max_num_seqs`"},
		{"out of memory, bare", core("Traceback (most recent call last):", "  File \"m.py\", line 3, in f", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.") + apiDead,
			"OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."},
		{"the wrapper only points", core("Traceback (most recent call last):", "  f", "ValueError: the cause", "", "During handling of the above exception, another exception occurred:", "",
			"Traceback (most recent call last):", "  g", "RuntimeError: Executor failed."), "ValueError: the cause"},
		{"two processes at once", "(Worker_TP1 pid=4) ERROR 12-01 10:00:00 [w.py:1] Traceback (most recent call last):\n(APIServer pid=1) INFO 12-01 10:00:00 [x.py:1] still here\n" +
			"(Worker_TP0 pid=3) ERROR 12-01 10:00:00 [w.py:1] Traceback (most recent call last):\n(Worker_TP1 pid=4) ERROR 12-01 10:00:00 [w.py:1]   File\n" +
			"(Worker_TP0 pid=3) ERROR 12-01 10:00:00 [w.py:1] ConnectionResetError: peer gone\n(Worker_TP1 pid=4) ERROR 12-01 10:00:00 [w.py:1] ncclSystemError: System call failed\n",
			"ncclSystemError: System call failed"},
		{"carriage returns in the lines of one record", strings.ReplaceAll(core("Traceback (most recent call last):", "  f", "ValueError: cause"), "\n", "\r\n"), "ValueError: cause"},
		{"a validation error of a field", "(APIServer pid=1) Traceback (most recent call last):\n(APIServer pid=1)   f\n" +
			"(APIServer pid=1) pydantic_core._pydantic_core.ValidationError: 1 validation error for SchedulerConfig\n(APIServer pid=1) max_num_seqs\n" +
			"(APIServer pid=1)   Input should be greater than or equal to 1 [type=greater_than_equal, input_value=0, input_type=int]\n(APIServer pid=1)     For further information visit https://errors.pydantic.dev\n(APIServer pid=1) bye\n",
			"ValidationError: 1 validation error for SchedulerConfig: max_num_seqs: Input should be greater than or equal to 1"},
		{"a log that begins in a traceback", "(EngineCore pid=2) ERROR 12-01 10:00:00 [c.py:1]     return f()\n(EngineCore pid=2) ERROR 12-01 10:00:00 [c.py:1] RuntimeError: late\n" + apiDead, "RuntimeError: late"},
		{"a request's error is not the server's", "(APIServer pid=1) ERROR 12-01 10:00:00 [v.py:1] Traceback (most recent call last):\n(APIServer pid=1) ERROR 12-01 10:00:00 [v.py:1]   f\n(APIServer pid=1) ERROR 12-01 10:00:00 [v.py:1] ValueError: bad request\n", ""},
		{"nor is one that the application raised", "(APIServer pid=1) ERROR:    Exception in ASGI application\n(APIServer pid=1) Traceback (most recent call last):\n(APIServer pid=1)   f\n(APIServer pid=1) ValueError: bad request\nKilled\n", "Killed"},
		{"without process names", "ERROR 12-01 10:00:00 [core.py:1] Traceback (most recent call last):\nERROR 12-01 10:00:00 [core.py:1]   f\nERROR 12-01 10:00:00 [core.py:1] ImportError: no module\n", "ImportError: no module"},
		{"interpreter", "Traceback (most recent call last):\n  File \"<string>\", line 1, in <module>\nModuleNotFoundError: No module named 'vllm'\n", "ModuleNotFoundError: No module named 'vllm'"},
		{"shell", "bash: vllm: command not found\n", "bash: vllm: command not found"},
		{"usage of another program", "usage: vllm [-h]\nvllm serve: error: argument --port: invalid int value: 'x'\n", "argument --port: invalid int value: 'x'"},
		{"segmentation fault", "Fatal Python error: Segmentation fault\n\nCurrent thread 0x1 (most recent call first):\n", "Fatal Python error: Segmentation fault"},
		{"only a message", "(EngineCore pid=2) ERROR 12-01 10:00:00 [c.py:1] Free memory on device is less than desired\n", "Free memory on device is less than desired"},
		{"told to stop", "INFO 12-01 10:00:00 [l.py:1] [shutdown] API server: shutdown triggered\n(EngineCore pid=2) ERROR 12-01 10:00:00 [c.py:1] RuntimeError: torn down\n", "[shutdown] API server: shutdown triggered"},
	} {
		if got := (vllm.Engine{}).FailureReason([]byte(x.log)); got != x.want {
			t.Errorf("%s:\n got %q\nwant %q", x.name, got, x.want)
		}
	}
}

func FuzzFailureReason(f *testing.F) {
	for _, log := range readLogs(f) {
		f.Add([]byte(log))
		f.Add([]byte(log[len(log)/2:]))
	}
	f.Add([]byte("Traceback (most recent call last):\nValidationError: 1 validation error for X\n\n [type=\n"))
	f.Fuzz(func(t *testing.T, log []byte) {
		got := vllm.Engine{}.FailureReason(log)
		if len(got) > 300 || !utf8.ValidString(got) || strings.ContainsAny(got, "\n\r") {
			t.Errorf("FailureReason = %q", got)
		}
	})
}
