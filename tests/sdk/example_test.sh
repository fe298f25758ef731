#!/bin/bash
# example_test.sh SOURCE_DIR INSTALL_DIR MODEL FLAVOUR: follows docs/writing-a-backend.md word for
# word in a folder of its own, against an installed Encore.
#
#   FLAVOUR default  all of its commands, with the system's compiler
#           clang    its build and use, with clang++-14
#           oldabi   the same with the other setting of libstdc++'s strings
#
# MODEL must give the same greedy text on the example as on the cpu backend's generic variant, in
# every mode. The commands come from the document: blocks marked <!-- run: NAME -->.
set -euo pipefail
source_dir=$1
install_dir=$2
model=$3
flavour=$4
document=$source_dir/docs/writing-a-backend.md
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
umask 022  # Encore loads no plugin that others could replace

# block KIND NAME: the code fence that follows <!-- KIND: NAME -->.
block() {
  awk -v marker="<!-- $1: $2 -->" '
    $0 == marker { armed = 1; found = 1; next }
    /^```/ { if (on) exit; if (armed) { on = 1; next } }
    on
    END { exit !found }' "$document"
}

# Optimised a little, so that building takes seconds and the model runs in seconds: the example says
# Release only where nobody says otherwise.
export CMAKE_BUILD_TYPE=Test CXXFLAGS=-O1
if command -v ccache >/dev/null; then  # which must not see that the folder is a new one
  export CMAKE_CXX_COMPILER_LAUNCHER=ccache CCACHE_BASEDIR=$scratch CCACHE_NOHASHDIR=1
fi
case $flavour in
  default) blocks="build use check ship" ;;
  clang) blocks="build use"; export CXX=clang++-14 ;;
  oldabi) blocks="build use"; CXXFLAGS="-O1 -D_GLIBCXX_USE_CXX11_ABI=0" ;;
  *) echo "unknown flavour $flavour" >&2; exit 2 ;;
esac

# "ship" installs into Encore's tree: a copy, so that nothing of it stays behind.
cp -r "$install_dir" "$scratch/encore"
export ENCORE=$scratch/encore MODEL=$model
mkdir "$scratch/work"
cd "$scratch/work"
echo "set -euxo pipefail" >"$scratch/commands"
for name in $blocks; do block run "$name" >>"$scratch/commands"; done
bash "$scratch/commands"
cd acme-toy

# The text of a run with these flags; a step that no graph can run is an error.
text() { "$ENCORE/bin/encore" run "$@" -q --model "$MODEL" --prompt "The capital of France is"; }
grep -v '^backend:\|^  name:\|^  options:\|^plugins:\|^  load:' toy.yaml >cpu.yaml
echo 'backend: {name: cpu, options: {isa: generic}}' >>cpu.yaml
expected=$(text cpu.yaml)
[ -n "$expected" ]
for mode in "full true" "breakable true" "off false"; do
  read -r prefill decode <<<"$mode"
  found=$(text toy.yaml --set "capture.prefill=$prefill" --set "capture.decode=$decode" \
    --set "capture.require_graph=$([ "$prefill" = off ] && echo false || echo true)")
  if [ "$found" != "$expected" ]; then
    printf 'prefill %s: acme.toy says\n%s\ncpu generic says\n%s\n' "$prefill" "$found" "$expected"
    exit 1
  fi
done

if [ "$flavour" = default ]; then
  "$ENCORE/bin/encore" plugins list | grep '^acme\.toy ' >/dev/null
  block file echo_runner.cpp >"$scratch/runner.cpp"
  c++ -std=c++20 -Wall -Wextra -Werror -fsyntax-only -I "$ENCORE/include" "$scratch/runner.cpp"
fi
if [ "$flavour" = clang ]; then
  readelf -p .comment build/lib/encore/plugins/encore_backend_acme.toy.so | grep clang >/dev/null
fi
if [ "$flavour" = oldabi ]; then  # strings of the old kind have no inline buffer and no __cxx11
  nm -C build/lib/encore/plugins/encore_backend_acme.toy.so | grep ' std::basic_string<char' >/dev/null
fi
