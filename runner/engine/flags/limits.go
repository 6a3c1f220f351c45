package flags

import "fmt"

// limit is the range of a number; Open excludes Low itself.
type limit struct {
	low, high float64
	open      bool
	what      string // what the number is, for the hint
}

// limits is for numbers that the parser takes and the engine then refuses, minutes later, or worse, does not.
func limits(name string) (limit, bool) {
	switch name {
	case "gpu-memory-utilization":
		return limit{0, 1, true, "the share of the GPU's memory that the engine takes, such as 0.90"}, true
	case "kv-cache-metrics-sample":
		return limit{0, 1, true, "a share"}, true
	case "watermark":
		return limit{0, 1, false, "a share"}, true
	case "tensor-parallel-size", "pipeline-parallel-size", "data-parallel-size", "prefill-context-parallel-size", "decode-context-parallel-size":
		return limit{1, 1024, false, "a number of devices"}, true
	case "max-model-len", "max-num-batched-tokens", "max-num-scheduled-tokens":
		return limit{1, 100_000_000, false, "a number of tokens"}, true
	case "block-size", "mamba-block-size":
		return limit{1, 1_000_000, false, "a number of tokens"}, true
	case "max-num-seqs", "max-num-active-seqs":
		return limit{1, 1_000_000, false, "a number of requests"}, true
	case "stream-interval":
		return limit{1, 1_000_000, false, "a number of tokens"}, true
	case "num-gpu-blocks-override":
		return limit{1, 1 << 40, false, "a number of blocks"}, true
	case "kv-cache-memory-bytes":
		return limit{1, 1 << 50, false, "a number of bytes"}, true
	case "swap-space", "cpu-offload-gb":
		return limit{0, 100_000, false, "in GiB"}, true
	case "shutdown-timeout":
		return limit{0, 86_400, false, "in seconds"}, true
	}
	return limit{}, false
}

func (o Option) bounded(v any) *Problem {
	l, ok := limits(o.Name)
	if !ok {
		return nil
	}
	var f float64
	switch x := v.(type) {
	case int64:
		f = float64(x)
	case float64:
		f = x
	default:
		return nil
	}
	if f > l.low && f <= l.high || f == l.low && !l.open {
		return nil
	}
	from := "from"
	if l.open {
		from = "above"
	}
	return &Problem{
		Message: fmt.Sprintf("%s is %v; want a number %s %v up to %s", o.Name, v, from, l.low, plain(l.high)),
		Hint:    "it is " + l.what,
	}
}

func plain(f float64) string { return fmt.Sprintf("%.0f", f) }

// Reserved reports flags that are not a config's to set, each with the reason.
func Reserved(name string) (string, bool) {
	switch name {
	case "model", "model-tag", "served-model-name":
		return "it is the spec's model.name (and model.path)", true
	case "revision":
		return "it is the spec's model.revision", true
	case "host", "port", "uds", "root-path", "grpc", "grpc-port", "headless":
		return "the runner chooses where the engine listens, and speaks HTTP to it", true
	case "ssl-keyfile", "ssl-certfile", "ssl-ca-certs", "ssl-cert-reqs", "ssl-ciphers", "enable-ssl-refresh":
		return "the runner speaks plain HTTP to the engine on the same machine", true
	case "config":
		return "flags in a file of the engine's own could be neither checked nor compared; write them here", true
	case "api-key":
		return "a secret must not be in a file or on a command line; set VLLM_API_KEY in the environment", true
	case "hf-token":
		return "a secret must not be in a file or on a command line; set HF_TOKEN in the environment", true
	case "help":
		return "it starts no server", true
	}
	return "", false
}
