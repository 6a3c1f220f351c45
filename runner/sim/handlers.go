package sim

import (
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net/http"
	"strconv"
	"strings"
	"time"

	"h100-inference-control-plane/runner/sim/model"
)

// uncounted are the paths that vLLM leaves out of http_requests_total.
var uncounted = map[string]bool{"/health": true, "/metrics": true, "/ping": true, "/version": true, "/load": true}

// handler answers one request and returns the status it sent.
type handler func(w http.ResponseWriter, r *http.Request) (status int)

func (s *Server) routes() {
	s.mux = http.NewServeMux()
	for pattern, h := range map[string]handler{
		"GET /health": s.health, "GET /ping": s.health, "POST /ping": s.health,
		"GET /version":             s.version,
		"GET /v1/models":           s.models,
		"GET /metrics":             s.scrape,
		"GET /load":                func(w http.ResponseWriter, r *http.Request) int { return s.json(w, r, 200, section{"server_load": 0}) },
		"GET /server_info":         s.info,
		"POST /reset_prefix_cache": s.resetPrefixCache,
		"POST /tokenize":           s.tokenize,
		"POST /v1/chat/completions": func(w http.ResponseWriter, r *http.Request) int {
			return s.generate(w, r, true)
		},
		"POST /v1/completions": func(w http.ResponseWriter, r *http.Request) int {
			return s.generate(w, r, false)
		},
	} {
		s.mux.HandleFunc(pattern, s.wrap(h))
	}
	s.mux.HandleFunc("/", s.wrap(func(w http.ResponseWriter, r *http.Request) int {
		return s.json(w, r, 404, section{"detail": "Not Found"})
	}))
}

// wrap checks the key and counts the answer.
func (s *Server) wrap(h handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		status := 401
		if strings.HasPrefix(r.URL.Path, "/v1") && !s.authorized(r) {
			s.json(w, r, status, section{"error": "Unauthorized"})
		} else {
			status = h(w, r)
		}
		if !uncounted[r.URL.Path] {
			s.metrics.served(r.URL.Path, r.Method, status, time.Since(began))
		}
	}
}

func (s *Server) authorized(r *http.Request) bool {
	if len(s.set.apiKeys) == 0 {
		return true
	}
	given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	for _, k := range s.set.apiKeys {
		if ok && subtle.ConstantTimeCompare([]byte(given), []byte(k)) == 1 {
			return true
		}
	}
	return false
}

func (s *Server) access(r *http.Request, status int) {
	if s.set.quietAccess {
		return
	}
	s.log.uvicorn("%s - \"%s %s HTTP/%d.%d\" %d %s", r.RemoteAddr, r.Method, r.URL.RequestURI(), r.ProtoMajor, r.ProtoMinor, status, http.StatusText(status))
}

func (s *Server) json(w http.ResponseWriter, r *http.Request, status int, body any) int {
	raw, err := json.Marshal(body)
	if err != nil {
		raw, status = []byte(`{"error":{"message":"encode the answer"}}`), 500
	}
	return s.raw(w, r, status, "application/json", raw)
}

func (s *Server) raw(w http.ResponseWriter, r *http.Request, status int, contentType string, body []byte) int {
	if contentType != "" {
		w.Header().Set("Content-Type", contentType)
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	s.access(r, status)
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may be gone; there is nobody to tell
	return status
}

func (s *Server) refuse(w http.ResponseWriter, r *http.Request, e *apiError) int {
	return s.json(w, r, e.Status, struct {
		Error *apiError `json:"error"`
	}{e})
}

func (s *Server) health(w http.ResponseWriter, r *http.Request) int {
	if s.Fate() != Alive {
		return s.raw(w, r, 503, "", nil)
	}
	return s.raw(w, r, 200, "", nil)
}

func (s *Server) version(w http.ResponseWriter, r *http.Request) int {
	return s.json(w, r, 200, section{"version": s.cfg.Version})
}

func (s *Server) fingerprint() string { return "vllm-" + s.cfg.Version + "-SIMULATED" }

func (s *Server) models(w http.ResponseWriter, r *http.Request) int {
	var data []section
	for _, name := range s.set.served {
		data = append(data, section{
			"id": name, "object": "model", "created": s.begun.Unix(), "owned_by": "vllm", "root": s.cfg.Model, "parent": nil,
			"max_model_len": s.set.engine.MaxModelLen, "permission": []any{},
		})
	}
	return s.json(w, r, 200, section{"object": "list", "data": data})
}

func (s *Server) scrape(w http.ResponseWriter, r *http.Request) int {
	if d := s.faults.slowMetrics; d > 0 {
		select {
		case <-time.After(d):
		case <-r.Context().Done():
		}
	}
	body := s.metrics.render(s.set.served[0], s.cacheInfo(), !s.set.noStats)
	return s.raw(w, r, 200, "text/plain; version=0.0.4; charset=utf-8", body)
}

func (s *Server) info(w http.ResponseWriter, r *http.Request) int {
	body, err := s.serverInfo()
	if err != nil {
		return s.refuse(w, r, &apiError{Status: 500, Message: err.Error(), Type: "InternalServerError"})
	}
	return s.raw(w, r, 200, "application/json", body)
}

func (s *Server) resetPrefixCache(w http.ResponseWriter, r *http.Request) int {
	s.log.api("api_router.py:39", "Resetting prefix cache...")
	var ok bool
	if err := s.call(r.Context(), func() { ok = s.engine.ResetPrefixCache() }); err != nil {
		return s.refuse(w, r, &apiError{Status: 500, Message: err.Error(), Type: "InternalServerError"})
	}
	if ok {
		s.log.core("block_pool.py:861", "Successfully reset prefix cache")
	} else {
		s.log.line(engineCore, "WARNING", "block_pool.py:850", "Failed to reset prefix cache because some blocks are not freed yet")
	}
	if s.rel.before(0, 28) {
		return s.raw(w, r, 200, "", nil)
	}
	return s.json(w, r, 200, section{"success": ok})
}

func (s *Server) tokenize(w http.ResponseWriter, r *http.Request) int {
	var in struct {
		Model    string        `json:"model"`
		Prompt   *string       `json:"prompt"`
		Messages []wireMessage `json:"messages"`
	}
	if err := decode(r.Body, &in, r.URL.Path); err != nil {
		return s.refuse(w, r, err)
	}
	if err := s.checkModel(in.Model); err != nil {
		return s.refuse(w, r, err)
	}
	tokens := []int32{}
	if in.Prompt != nil {
		tokens = append(tokens, s.prof.Tokenize(*in.Prompt)...)
	} else {
		var err *apiError
		if tokens, err = s.chatTokens(in.Messages); err != nil {
			return s.refuse(w, r, err)
		}
	}
	return s.json(w, r, 200, section{"count": len(tokens), "max_model_len": s.set.engine.MaxModelLen, "tokens": tokens, "token_strs": nil})
}

// generate answers both APIs, streaming or not.
func (s *Server) generate(w http.ResponseWriter, r *http.Request, chat bool) int {
	at := s.clock()
	q, bad := s.parse(r.Body, r.URL.Path, chat)
	if bad != nil {
		return s.refuse(w, r, bad)
	}
	n := s.draws.Add(1)
	if s.draw(n, "http-500") < s.faults.http500 {
		return s.refuse(w, r, &apiError{Status: 500, Message: "SIMULATED: the fault http-500 was asked for", Type: "InternalServerError"})
	}
	if s.Fate() == Dead {
		return s.refuse(w, r, &apiError{Status: 500, Message: deadMessage, Type: "InternalServerError"})
	}
	out := newStream()
	a := &answer{s: s, w: w, r: r, q: q, out: out, cut: s.cutFor(n, q)}
	s.submit(out, at, model.Request{
		Tokens: q.tokens, MaxTokens: q.maxTokens, MinTokens: q.minTokens, IgnoreEOS: q.ignoreEOS, Salt: q.salt,
	})
	prefix := "cmpl-"
	if chat {
		prefix = "chatcmpl-"
	}
	id := r.Header.Get("X-Request-Id")
	if id == "" {
		id = fmt.Sprintf("%016x", model.PromptHash([]int32{int32(n), int32(n >> 32), int32(s.begun.UnixNano())}))
	} else if s.set.requestIDHeader {
		w.Header().Set("X-Request-Id", id)
	}
	id = strings.Trim(strconv.Quote(id), `"`)
	created := time.Now().Unix()
	a.enc = newWriter(s, q, prefix+id, created)
	if q.stream {
		return a.stream()
	}
	return a.whole(prefix+id, created)
}

// draw is a number in [0, 1) for the n-th request and one purpose: the same for the same noise seed.
func (s *Server) draw(n uint64, purpose string) float64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %d %s", s.cfg.Seed, n, purpose)
	return float64(model.PromptHash([]int32{int32(h.Sum64()), int32(h.Sum64() >> 32)})>>11) / (1 << 53)
}

// cut is where and how a fault ends an answer; after 0 = not at all.
type cut struct {
	after    int // tokens
	truncate bool
}

func (s *Server) cutFor(n uint64, q *query) cut {
	half := max(q.maxTokens/2, 1)
	switch {
	case s.draw(n, "error") < s.faults.errorMidStream:
		return cut{half, false}
	case q.stream && s.draw(n, "truncate") < s.faults.truncate:
		return cut{half, true}
	}
	return cut{}
}
