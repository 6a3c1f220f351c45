#!/usr/bin/env bash
# gofmt, vet and staticcheck on every module; actionlint on the workflows; zizmor where it is installed.
set -euo pipefail
cd "$(dirname "$0")/.."
bad=$(gofmt -l $(git ls-files '*.go'))
[ -z "$bad" ] || { printf 'not gofmt-ed:\n%s\n' "$bad" >&2; exit 1; }
for module in . pipelines; do
  [ -f "$module/go.mod" ] || continue
  echo "vet $module";         (cd "$module" && go vet ./...)
done
mkdir -p bin
(cd tools && go build -o ../bin/ honnef.co/go/tools/cmd/staticcheck github.com/rhysd/actionlint/cmd/actionlint)
echo "staticcheck"; bin/staticcheck ./...
echo "actionlint";  bin/actionlint -shellcheck= -pyflakes=
if command -v zizmor >/dev/null; then
  echo "zizmor"; zizmor --offline --quiet .github/workflows
elif python3 -m pip --version >/dev/null 2>&1; then
  echo "zizmor (installing into .cache/zizmor)"
  python3 -m venv .cache/zizmor && .cache/zizmor/bin/pip install -q zizmor==1.16.3 && .cache/zizmor/bin/zizmor --offline --quiet .github/workflows
else
  echo "zizmor: skipped, neither zizmor nor pip is here"
fi
