package redact

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

const leftOut = "[left out"

// JSON redacts a JSON document, such as vLLM's /server_info, by structure and by content, and returns it indented with
// sorted keys. Environment variables stay only when their prefix is known to be harmless and their name is no secret's;
// lists of installed packages are cut to those that decide how fast a model runs; whatever stands under a secret name is
// replaced; every remaining string goes through Bytes. The error says that b is not one JSON value.
func (r *Redactor) JSON(b []byte) ([]byte, error) {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var doc any
	if err := dec.Decode(&doc); err != nil {
		return nil, fmt.Errorf("redact JSON: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("redact JSON: more than one value")
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err := enc.Encode(r.walk("", doc, false)); err != nil {
		return nil, fmt.Errorf("redact JSON: %w", err)
	}
	return out.Bytes(), nil
}

// walk redacts a value. env is true inside an object whose keys are environment variables.
func (r *Redactor) walk(name string, v any, env bool) any {
	if SecretName(name) && !harmlessJSON(v) {
		return Marker
	}
	switch v := v.(type) {
	case map[string]any:
		return r.object(v, env || isEnvironment(name))
	case []any:
		return r.list(name, v, env)
	case string:
		return r.text(name, v)
	case json.Number:
		if s := r.String(v.String()); s != v.String() {
			return s
		}
		return v
	}
	return v
}

func (r *Redactor) object(m map[string]any, env bool) any {
	out := make(map[string]any, len(m))
	dropped := 0
	for k, v := range m {
		if (env || isEnvName(k)) && !harmlessEnv(k, v) && !strings.HasPrefix(k, leftOut) {
			dropped++
			continue
		}
		out[r.String(k)] = r.walk(k, v, false)
	}
	if dropped > 0 {
		out[leftOut+"]"] = count(dropped, "environment variable")
	}
	return out
}

func (r *Redactor) list(name string, l []any, env bool) any {
	if isPackages(name) {
		return r.packages(l)
	}
	out := make([]any, len(l))
	for i, v := range l {
		out[i] = r.walk("", v, env)
	}
	return out
}

// text handles strings that are lists themselves: vLLM prints environment and packages as lines.
func (r *Redactor) text(name, s string) any {
	switch {
	case isPackages(name):
		return r.packages(lines(s))
	case isEnvironment(name):
		var kept []string
		dropped := 0
		for line := range strings.Lines(s) {
			line = strings.TrimRight(line, "\r\n")
			k, v, _ := strings.Cut(line, "=")
			switch {
			case strings.TrimSpace(line) == "":
			case strings.HasPrefix(line, leftOut): // from an earlier pass
				kept = append(kept, r.String(line))
			case harmlessEnv(strings.TrimSpace(k), v):
				kept = append(kept, r.String(line))
			default:
				dropped++
			}
		}
		if dropped > 0 {
			kept = append(kept, leftOut+": "+count(dropped, "line")+"]")
		}
		return strings.Join(kept, "\n")
	}
	return r.String(s)
}

func lines(s string) []any {
	var out []any
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); line != "" {
			out = append(out, line)
		}
	}
	return out
}

// packages keeps the lines of the packages that decide how fast a model runs.
func (r *Redactor) packages(l []any) []any {
	out := []any{}
	relevant := relevantPackage()
	for _, v := range l {
		if s, ok := v.(string); ok && (strings.HasPrefix(s, leftOut) || relevant.MatchString(s)) {
			out = append(out, r.String(s))
		}
	}
	if n := len(l) - len(out); n > 0 {
		out = append(out, leftOut+": "+count(n, "package")+"]")
	}
	return out
}

func relevantPackage() *regexp.Regexp {
	return regexp.MustCompile(`(?i)(^|\s|\])(vllm|torch|torchvision|triton|pytorch-triton|flashinfer|flash-attn|vllm-flash-attn|deep-gemm|transformers|tokenizers|numpy|xgrammar|nvidia-(nccl|cuda|cudnn|cublas|nvshmem|cutlass)[a-z0-9-]*)([-_a-z0-9]*)?(\s|=|==|\[|@|$)`)
}

func isPackages(name string) bool {
	return slices.Contains(splitName(name), "packages")
}

func isEnvironment(name string) bool {
	words := splitName(name)
	if slices.Contains(words, "system") { // vLLM's system_env holds versions, and env_vars inside
		return false
	}
	return slices.Contains(words, "environ") || slices.Contains(words, "environment") || slices.Contains(words, "env")
}

// isEnvName recognises the name of an environment variable: CAPITALS_WITH_UNDERSCORES.
func isEnvName(k string) bool {
	return strings.Contains(k, "_") && strings.Trim(k, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == "" && k[0] != '_'
}

// harmlessEnv says whether an environment variable may be shown.
func harmlessEnv(name string, v any) bool {
	if SecretName(name) {
		return harmlessJSON(v)
	}
	s, text := v.(string)
	for _, suffix := range []string{"_IP", "_IPS", "_HOST", "_HOSTNAME", "_ADDR", "_ADDRESS"} {
		if strings.HasSuffix(name, suffix) && text && s != "" && s != "localhost" && s != "127.0.0.1" {
			return false
		}
	}
	for _, p := range []string{"VLLM_", "CUDA_", "NCCL_", "NVIDIA_", "TORCH_", "TORCHINDUCTOR_", "PYTORCH_", "TRITON_", "FLASHINFER_", "OMP_", "MKL_", "KMP_", "HF_HUB_", "HSA_", "HIP_", "ROCR_"} {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return slices.Contains([]string{"DO_NOT_TRACK", "TOKENIZERS_PARALLELISM", "TRANSFORMERS_OFFLINE", "PYTHONHASHSEED"}, name)
}

func harmlessJSON(v any) bool {
	switch v := v.(type) {
	case nil, bool:
		return true
	case string:
		return harmlessValue(v)
	case json.Number:
		return harmlessValue(v.String())
	case []any:
		for _, e := range v {
			if !harmlessJSON(e) {
				return false
			}
		}
		return true
	}
	return false
}
