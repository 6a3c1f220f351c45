package redact_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"h100-inference-control-plane/runner/redact"
)

// A secret with everything in it that an encoding changes.
const secret = `s3cr3t/Va+lu e"q\u&<é%>😀~end`

func TestValueInEveryForm(t *testing.T) {
	r := redact.New([]string{secret, "plainvalue123"})
	quoted := func(s string) string {
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	ascii := fmt.Sprintf("%+q", secret) // \u00e9 and \U0001f600
	forms := map[string]string{
		"raw":             secret,
		"JSON":            quoted(secret),
		"JSON in JSON":    quoted(quoted(secret)),
		"JSON, ASCII":     strings.ReplaceAll(ascii, `\U0001f600`, `\ud83d\ude00`),
		"JSON, slashes":   strings.ReplaceAll(quoted(secret), "/", `\/`),
		"query":           url.QueryEscape(secret),
		"query, lower":    lowerPercent(url.QueryEscape(secret)),
		"path":            url.PathEscape(secret),
		"HTML":            html.EscapeString(secret),
		"base64":          base64.StdEncoding.EncodeToString([]byte(secret)),
		"base64 URL":      base64.RawURLEncoding.EncodeToString([]byte(secret)),
		"base64 at 1":     base64.StdEncoding.EncodeToString([]byte("u" + secret + ":x")),
		"base64 at 2":     base64.StdEncoding.EncodeToString([]byte("u:" + secret)),
		"base64, user":    "Basic " + base64.StdEncoding.EncodeToString([]byte("user:plainvalue123")),
		"hexadecimal":     hex.EncodeToString([]byte(secret)),
		"ANSI":            "s3cr3t\x1b[31m/Va\x1b[0m+lu e\"q\\u&<é%>😀~e\x1b[1;32;40mnd",
		"ANSI in ANSI":    "plain\x1b[\x1b[31mm\x1b[0mvalue\x1b]0;title\x07123",
		"ANSI, 8 bit":     "plain\u009b31mvalue123",
		"ANSI, link":      "plainva\x1b]8;;http://x/\x1b\\lue123",
		"twice":           secret + secret,
		"next to another": "plainvalue123" + secret,
		"percent, partly": "plain%76alue%3123",
		"Python":          `plain\x76alue123`,
	}
	for name, form := range forms {
		t.Run(name, func(t *testing.T) {
			out := r.String("before " + form + " after")
			assertGone(t, out, secret, "plainvalue123")
			if !strings.HasPrefix(out, "before ") || !strings.HasSuffix(out, " after") {
				t.Errorf("what stood around is gone: %q", out)
			}
		})
	}
}

func lowerPercent(s string) string {
	out := []byte(s)
	for i := range out {
		if out[i] == '%' {
			copy(out[i+1:], bytes.ToLower(out[i+1:i+3]))
		}
	}
	return string(out)
}

// assertGone looks for a value as a reader could: in the text, without escape sequences, and decoded.
func assertGone(t *testing.T, out string, values ...string) {
	t.Helper()
	if strings.Contains(out, "\x1b") {
		t.Errorf("an escape sequence is left: %q", out)
	}
	views := []string{out}
	if u, err := url.QueryUnescape(out); err == nil {
		views = append(views, u)
	}
	views = append(views, html.UnescapeString(out))
	for _, word := range strings.FieldsFunc(out, func(c rune) bool { return strings.ContainsRune(" \t\n\"',;:[]{}()", c) }) {
		for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
			if b, err := enc.DecodeString(word); err == nil {
				views = append(views, string(b))
			}
		}
		if b, err := hex.DecodeString(word); err == nil {
			views = append(views, string(b))
		}
	}
	for _, v := range values {
		for _, view := range views {
			if strings.Contains(view, v) {
				t.Errorf("%q is still in %q", v, out)
			}
		}
	}
}

func TestPatterns(t *testing.T) {
	r := redact.New(nil, "alice", "gpu-box-7")
	f := func(in, want string) {
		t.Helper()
		if got := r.String(in); got != want {
			t.Errorf("%s\n got %s\nwant %s", in, got, want)
		}
		if again := r.String(want); again != want {
			t.Errorf("not stable: %s became %s", want, again)
		}
	}
	// Credentials.
	f(`Authorization: Bearer abc.def-123`, `Authorization: Bearer [redacted]`)
	f(`curl -H "authorization: Basic dXNlcjpwYXNz" -H 'x: y'`, `curl -H "authorization: Basic [redacted]" -H 'x: y'`)
	f(`(b'authorization', b'Bearer abc123456')`, `(b'authorization', b'Bearer [redacted]')`)
	f(`{"X-Api-Key": "abcdef", "a": "b"}`, `{"X-Api-Key": "[redacted]", "a": "b"}`)
	f(`token hf_abcdefghijklmnop1234 used`, `token [redacted] used`)
	f(`OPENAI=sk-proj-abcdefghijklmnop`, `OPENAI=[redacted]`)
	f(`ghp_0123456789abcdefghij0123456789abcdef x`, `[redacted] x`)
	f(`AKIAIOSFODNN7EXAMPLE`, `[redacted]`)
	f(`eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abcdefg`, `[redacted]`)
	f("-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc=\n-----END RSA PRIVATE KEY-----\nnext", "[redacted]\nnext")
	// URLs.
	f(`get https://user:pa%20ss@host/x?a=1`, `get https://[redacted]@host/x?a=1`)
	f(`postgres://u:p@ss@db:5432/x`, `postgres://[redacted]@db:5432/x`)
	f(`GET /v1?token=abc&n=1&X-Amz-Signature=ff00 x`, `GET /v1?token=[redacted]&n=1&X-Amz-Signature=[redacted] x`)
	f(`http://127.0.0.1:8000/v1/models`, `http://127.0.0.1:8000/v1/models`)
	// Pairs.
	f(`HF_TOKEN=abcdef vllm serve m`, `HF_TOKEN=[redacted] vllm serve m`)
	f(`env=HF_TOKEN=abcdef`, `env=HF_TOKEN=[redacted]`)
	f(`{'api_key': ['one', 'two'], 'port': 8000}`, `{'api_key': [redacted], 'port': 8000}`)
	f(`{'api_key': 'it\'s', 'port': 8000}`, `{'api_key': [redacted], 'port': 8000}`)
	f(`{\"password\": \"a b\", \"x\": 1}`, `{\"password\": [redacted], \"x\": 1}`)
	f(`--api-key abc --port 8000`, `--api-key [redacted] --port 8000`)
	f(`['--api-key', 'abc', '--port', '8000']`, `['--api-key', '[redacted]', '--port', '8000']`)
	f(`PGPASSWORD="a b" psql`, `PGPASSWORD=[redacted] psql`)
	// The vocabulary of LLM serving stays.
	for _, s := range []string{
		`Avg generation throughput: 43.4 tokens/s`,
		`GPU KV cache size: 2,359,296 tokens`,
		`'max_num_batched_tokens': 8192, 'hf_token': None, 'tokenizer': '/models/x'`,
		`tokenizer_mode=auto, revision=None, skip_tokenizer_init=False`,
		`dbo_decode_token_threshold=32 VLLM_SHARED_EXPERTS_STREAM_TOKEN_THRESHOLD=256`,
		`prompt_token_ids=[1, 2, 3] prefix_cache_key=abc run_key: 0123`,
		`MoEConfig(key=value) --max-num-batched-tokens 2048 --trust-remote-code`,
		`Prefix cache hit rate: 0.0%`,
		`disk-based-storage-for-everything`,
	} {
		f(s, s)
	}
	// Places and people.
	f(`File "/opt/x/venv/lib/python3.12/site-packages/vllm/a.py"`, `File "<site-packages>/vllm/a.py"`)
	f(`/home/bob/.cache/huggingface/hub/models--Q/x`, `<cache>/hub/models--Q/x`)
	f(`cache_dir=/mnt/team/cache/torch_compile_cache/e22/rank_0_0`, `cache_dir=<cache>/torch_compile_cache/e22/rank_0_0`)
	f(`/home/bob/models/x /root/y C:\Users\Bob\z`, `~/models/x ~/y ~\z`)
	f(`alice@gpu-box-7: gpu-box-71 malice alice`, `[name]@[name]: gpu-box-71 malice [name]`)
}

func TestSecretName(t *testing.T) {
	yes := []string{"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "VLLM_API_KEY", "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN", "OPENAI_API_KEY",
		"GITHUB_TOKEN", "DB_PASSWORD", "PGPASSWORD", "MY_PASSWD", "DB_PWD", "password", "apiKey", "accessToken", "client-secret", "hf_token", "token",
		"GOOGLE_APPLICATION_CREDENTIALS", "SSH_PRIVATE_KEY", "Authorization", "COOKIE", "BASIC_AUTH", "SENTRY_DSN", "GH_PAT", "api_key"}
	no := []string{"", "PATH", "PWD", "HOME", "TOKENIZERS_PARALLELISM", "tokenizer", "max_tokens", "max_num_batched_tokens", "dbo_decode_token_threshold",
		"VLLM_SHARED_EXPERTS_STREAM_TOKEN_THRESHOLD", "VLLM_MAX_TOKENS_PER_EXPERT_FP4_MOE", "prompt_token_ids", "eos_token", "cache_key", "run_key", "key",
		"monkey", "keyboard", "author", "secretary", "pattern", "VLLM_LOGGING_LEVEL", "bench_request_tpot", "SSH_AUTH_SOCK"}
	for _, n := range yes {
		if !redact.SecretName(n) {
			t.Errorf("%q is not taken for a secret's name", n)
		}
	}
	for _, n := range no {
		if redact.SecretName(n) {
			t.Errorf("%q is taken for a secret's name", n)
		}
	}
}

func TestNilAndShort(t *testing.T) {
	var r *redact.Redactor
	if got := r.String("HF_TOKEN=abcdef a b c"); got != "HF_TOKEN=[redacted] a b c" {
		t.Errorf("a nil Redactor: %q", got)
	}
	r = redact.New([]string{"", "a", "abc"}, "", "ab", "root")
	if got := r.String("abc root ab"); got != "abc root ab" {
		t.Errorf("short values are not ignored: %q", got)
	}
	in := []byte("x plainvalue123 y")
	redact.New([]string{"plainvalue123"}).Bytes(in)
	if string(in) != "x plainvalue123 y" {
		t.Errorf("the argument was changed: %q", in)
	}
}

// planted are secrets that the test puts into recorded answers and logs.
var planted = []string{"Zq9-planted-value-0x", "pw with space/and+plus", "Tr0ub4dor&3", secret}

func TestServerInfo(t *testing.T) {
	raw, err := os.ReadFile("testdata/server_info_0.32.0.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	plant(doc)
	dirty, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	out, err := redact.New(planted, "alice").JSON(dirty)
	if err != nil {
		t.Fatal(err)
	}
	assertGone(t, string(out), planted...)
	for _, gone := range []string{"hf_plantedplantedplanted", "db.internal.example", "user:pass", "/home/alice", "alice", "PATH=", "some-private-package", "10.1.2.3", "unknown-to-us"} {
		if strings.Contains(string(out), gone) {
			t.Errorf("%q is still there:\n%s", gone, out)
		}
	}
	golden(t, "server_info_0.32.0.golden.json", out)
	again, err := redact.New(planted, "alice").JSON(out)
	if err != nil || !bytes.Equal(again, out) {
		t.Errorf("redacting twice changes the document (%v):\n%s", err, again)
	}
}

func plant(doc map[string]any) {
	model := doc["vllm_config"].(map[string]any)["model_config"].(map[string]any)
	model["hf_token"] = "hf_plantedplantedplanted"
	model["model"] = "/home/alice/models/tiny"
	model["hf_overrides"] = map[string]any{"headers": []any{"Authorization: Bearer unknown-to-us-1"}, "url": "https://user:pass@internal.example/x"}
	env := doc["vllm_env"].(map[string]any)
	env["VLLM_API_KEY"] = planted[0]
	env["VLLM_LOGGING_PREFIX"] = "x " + planted[1]
	env["VLLM_HOST_IP"] = "10.1.2.3"
	env["DB_HOST"] = "db.internal.example"
	env["HOME"] = "/home/alice"
	doc["api_keys"] = []any{planted[2], "unknown-to-us-2"}
	doc["credentials"] = map[string]any{"user": "u", "value": "unknown-to-us-3"}
	doc["note"] = "token=" + planted[3]
	sys := doc["system_env"].(map[string]any)
	sys["env_vars"] = "PATH=/usr/bin\nCUDA_VISIBLE_DEVICES=0\nHF_TOKEN=" + planted[0] + "\nVLLM_LOGGING_LEVEL=INFO\n"
	sys["pip_packages"] = "[pip3] numpy==2.2\n[pip3] some-private-package==1.0\n[pip3] torch==2.13.0\n"
}

func TestJSONFailure(t *testing.T) {
	for _, in := range []string{"", "{", "{} {}", "nope"} {
		if out, err := redact.New(nil).JSON([]byte(in)); err == nil {
			t.Errorf("JSON(%q) = %q without an error", in, out)
		}
	}
}

// TestRecordedLogs plants secrets into recorded logs, in the places where they turn up, and lets none through.
func TestRecordedLogs(t *testing.T) {
	for _, name := range []string{"server_crash_0.25.1.log", "server_graphs_0.25.1.log"} {
		t.Run(name, func(t *testing.T) {
			raw, err := os.ReadFile(filepath.Join("testdata", name))
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(string(raw), "\n")
			var dirty []string
			for i, l := range lines {
				dirty = append(dirty, l)
				v := planted[i%len(planted)]
				switch i % 7 {
				case 0:
					dirty = append(dirty, "(APIServer pid=1) INFO 12-01 09:00:00 [x.py:1] value "+v)
				case 1:
					dirty = append(dirty, "ERROR \x1b[31m"+v[:5]+"\x1b[0m"+v[5:])
				case 2:
					dirty = append(dirty, `INFO: "GET /v1?q=`+url.QueryEscape(v)+` HTTP/1.1" 200 OK`)
				case 3:
					dirty = append(dirty, "WARNING "+base64.StdEncoding.EncodeToString([]byte("me:"+v)))
				}
			}
			in := []byte(strings.Join(dirty, "\n"))
			r := redact.New(planted)
			clean := r.Bytes(in)
			assertGone(t, string(clean), planted...)
			if again := r.Bytes(clean); !bytes.Equal(again, clean) {
				t.Error("redacting twice changes the log")
			}
			for _, max := range []int{0, 10, 500, 3000, 12000, 1 << 20} {
				out := redact.TrimLog(clean, max)
				assertGone(t, string(out), planted...)
				if len(out) > max {
					t.Errorf("TrimLog(%d) gave %d bytes", max, len(out))
				}
			}
		})
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("BENCH_UPDATE") != "" {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (BENCH_UPDATE=1 writes it)", err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs (BENCH_UPDATE=1 rewrites it):\n%s", path, got)
	}
}

// FuzzBytes: whatever stands around it and however it is wrapped, the value does not survive.
func FuzzBytes(f *testing.F) {
	f.Add("plainvalue123", "before", "after", uint8(0))
	f.Add(secret, "HF_TOKEN=", " x", uint8(1))
	f.Add("a%41\\b+c", "%", "%", uint8(2))
	f.Add("\\\\\\\\", "\\", "\\", uint8(3))
	f.Add("-----BEGIN", "/home/", "/.cache", uint8(4))
	f.Add("äöü€", "\x1b", "\x1b[", uint8(5))
	f.Fuzz(func(t *testing.T, value, before, after string, form uint8) {
		if len(value) < 4 || len(value) > 200 || strings.ContainsRune(value, 0x1b) || strings.ContainsRune(value, 0x9b) || strings.Contains(redact.Marker, value) {
			return
		}
		wrapped := value
		switch form % 6 {
		case 1:
			b, err := json.Marshal(value)
			if err != nil || !strings.Contains(string(b), `"`) {
				return
			}
			wrapped = string(b)
		case 2:
			wrapped = url.QueryEscape(value)
		case 3:
			wrapped = base64.StdEncoding.EncodeToString([]byte(value))
		case 4:
			wrapped = value[:2] + "\x1b[31m" + value[2:]
		case 5:
			wrapped = html.EscapeString(value)
		}
		r := redact.New([]string{value})
		out := r.String(before + wrapped + after)
		for _, own := range []string{redact.Marker, "<cache>", "<site-packages>", "~"} {
			if strings.Contains(own, value) || strings.Contains(value, own) || overlaps(own, value) {
				return // the text that stands for a secret is no secret
			}
		}
		if strings.Contains(out, value) {
			t.Fatalf("%q is in %q", value, out)
		}
		if len(value) >= 8 && form%6 == 3 && before == "" && after == "" && strings.Contains(out, wrapped) {
			t.Fatalf("base64 of %q is in %q", value, out)
		}
	})
}

// overlaps says whether the end of one is the beginning of the other.
func overlaps(a, b string) bool {
	for n := 1; n < min(len(a), len(b)); n++ {
		if a[len(a)-n:] == b[:n] || b[len(b)-n:] == a[:n] {
			return true
		}
	}
	return false
}

func FuzzJSON(f *testing.F) {
	f.Add([]byte(`{"a":"plainvalue123","HF_TOKEN":"x","l":[1,2.5,null,true],"env_vars":"A=b\nVLLM_X=1"}`))
	f.Add([]byte(`"plain\u0076alue123"`))
	f.Add([]byte(`{"plainvalue123":{"pip_packages":["torch 2"]}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		out, err := redact.New([]string{"plainvalue123"}).JSON(b)
		if err != nil {
			return
		}
		if !json.Valid(out) {
			t.Fatalf("not JSON: %q", out)
		}
		if bytes.Contains(out, []byte("plainvalue123")) {
			t.Fatalf("the value is in %q", out)
		}
	})
}

func BenchmarkBytes(b *testing.B) {
	raw, err := os.ReadFile("testdata/server_crash_0.25.1.log")
	if err != nil {
		b.Fatal(err)
	}
	r := redact.New(planted)
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		r.Bytes(raw)
	}
}

func TestFolder(t *testing.T) {
	r := redact.New(nil).Folder("/srv/bench/models/", "<model>").Folder("/srv/bench", ".").Folder("/", "<root>").Folder("relative", "<no>")
	f := func(in, want string) {
		t.Helper()
		if got := r.String(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	f("model='/srv/bench/experiments/m',", "model='./experiments/m',")
	f("/srv/bench", ".")
	f("--model=/srv/bench/models/a --x", "--model=<model>/a --x")
	f(`"path":"\/srv\/bench\/x"`, `"path":".\/x"`)
	f("/srv/bench/a:/srv/bench/b /srv/bench /srv/bench", "./a:./b . .")
	f("/srv/benchmark /mnt/srv/bench", "/srv/benchmark /mnt/srv/bench")
	f("relative /", "relative /")
}
