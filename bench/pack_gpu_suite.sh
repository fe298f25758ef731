#!/usr/bin/env bash
# Copies what bench/gpu_suite.sh needs of a build into one small folder, for a machine without one.
#
#   bench/pack_gpu_suite.sh BUILD_FOLDER TARGET_FOLDER
#
# Programs are stripped and keep their place below the folder; the libraries that the host links
# (all but the C and C++ ones) go to lib/host, where the suite looks for them. The test of NVML stays
# behind: it brings an NVML of its own and needs no GPU.
set -euo pipefail

[ $# -eq 2 ] || { sed -n '2,5p' "$0" >&2; exit 2; }
build=$(cd "$1" && pwd)
mkdir -p "$2"
target=$(cd "$2" && pwd)

copy() {
  local path=${1#"$build"/}
  mkdir -p "$target/$(dirname "$path")"
  strip -o "$target/$path" "$1"
}

copy "$build/bin/encore"
copy "$build/bin/encore-plugin-check"
copy "$build/libexec/encore/encore-plugin-probe"
find "$build/lib/encore/plugins" -maxdepth 1 -name 'encore_backend_*.so' | while read -r file; do
  copy "$file"
done
cp "$build"/lib/encore/plugins/*.plugin.yaml "$target/lib/encore/plugins/"
find "$build" \( -path '*/tests/gpu/*_test' -o -path '*/tests/cuda/*_test' -o -path '*/bench/gpu/*' \
  -o -path '*/tests/runners/encore_*_test' \) -type f -perm -u+x \
  -not -path '*/CMakeFiles/*' -not -path '*/on_cpu/*' -not -name '*_nvml_test' |
  while read -r file; do copy "$file"; done

mkdir -p "$target/lib/host"
ldd "$build/bin/encore" | awk '$2 == "=>" { print $3 }' |
  grep -vE '/(libc|libm|libstdc\+\+|libgcc_s|libdl|libpthread|librt)\.so' |
  while read -r library; do cp -L "$library" "$target/lib/host/"; done
# Encore loads no plugin that somebody else could replace.
chmod -R go-w "$target"
du -sh "$target"
