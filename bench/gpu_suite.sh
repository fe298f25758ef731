#!/usr/bin/env bash
# Tests and measures the cuda plugin on a machine with a GPU, from a build made elsewhere or here.
#
#   bench/gpu_suite.sh [SECTION]...
#     kernels backend runner reference conformance verbs memory start bench baseline sanitize
#
# Without sections it runs all. A part that fails or runs out of time costs that part: the rest runs,
# a summary ends the output, and the exit status is 1. Each section's whole output goes to
# SECTION.log in $OUT (or the scratch folder); the terminal gets the end of each part.
#
#   ENCORE_BUILD_DIR   build folder, or one that bench/pack_gpu_suite.sh made     build/cuda
#   ENCORE_SCRATCH     models made on the way (20 GB), kept for the next run      /tmp/encore-gpu-suite
#   ENCORE_SHAPES      of start, bench and baseline       "llama-3.1-8b llama-3.2-1b"
#   ENCORE_RUNNER_ARGS more arguments of encore_runner_test     "--logit-tolerance=0.02 --reference-tolerance=0.5"
#   ENCORE_REFERENCE_MODELS  of tests/goldens/gpu_reference.py  all
#   ENCORE_SANITIZERS  of sanitize                                   "memcheck racecheck"
#   ENCORE_TEST_FILTER GoogleTest filter of kernels and sanitize     all; small_filter()'s
set -ufo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${ENCORE_BUILD_DIR:-$root/build/cuda}
scratch=${ENCORE_SCRATCH:-/tmp/encore-gpu-suite}
logs=${OUT:-$scratch/logs}
shapes=${ENCORE_SHAPES:-llama-3.1-8b llama-3.2-1b}
sanitizers=${ENCORE_SANITIZERS:-memcheck racecheck}
filter=${ENCORE_TEST_FILTER:-}
section=setup
summary=()
failures=0

mkdir -p "$scratch" "$logs" || exit 2
[ -d "$build" ] || { echo "error: $build does not exist; set ENCORE_BUILD_DIR" >&2; exit 2; }
build=$(cd "$build" && pwd)
plugin=$build/lib/encore/plugins/encore_backend_cuda.so
export ENCORE_TEST_GOLDENS=$root/tests/goldens
export LD_LIBRARY_PATH=$build/lib/host${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

# part NAME SECONDS LINES COMMAND...: runs a command, shows its last LINES lines (40 if it failed).
part() {
  local name=$1 seconds=$2 lines=$3 start=$SECONDS status=0 output verdict=ok
  shift 3
  output=$(mktemp "$scratch/part.XXXXXX")
  timeout --kill-after=10 "$seconds" "$@" >"$output" 2>&1 </dev/null || status=$?
  if [ "$status" -ne 0 ]; then
    verdict="failed with $status"
    [ "$status" -eq 124 ] && verdict="timed out after $seconds s"
    failures=$((failures + 1))
    lines=40
  fi
  { echo "\$ $*"; cat "$output"; echo "-- $name: $verdict, $((SECONDS - start)) s"; echo; } \
    >>"$logs/$section.log"
  tail -n "$lines" "$output" | cut -c 1-240
  rm -f "$output"
  echo "-- $name: $verdict, $((SECONDS - start)) s"
  summary+=("$section $name: $verdict, $((SECONDS - start)) s")
  return "$status"
}

# programs PATTERN: the build's programs whose path matches, less those that imitate a GPU; the
# pattern itself if there are none, so that the part fails instead of passing for want of programs.
programs() {
  local found
  found=$(find "$build" -path "$1" -type f -perm -u+x -not -path '*/CMakeFiles/*' \
    -not -path '*/on_cpu/*' | sort)
  echo "${found:-$1}"
}

describe_machine() {
  nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.sm --format=csv,noheader
  local program
  for program in "$build/bin/encore" "$plugin" $(programs '*/tests/runners/encore_r*_test'); do
    if [ ! -e "$program" ]; then
      echo "missing: $program"
    else
      ldd "$program" | grep 'not found' | sed "s|^|${program##*/} needs|"
    fi
  done
  return 0
}

# need_model SHAPE: makes the model once; its path is in $model.
need_model() {
  model=$scratch/$1
  [ -f "$model/config.json" ] && return
  part "make $1" 120 1 python3 "$root/bench/compare/make_random_checkpoint.py" "$1" "$model" \
    --tokenizer
}

run_kernels() {
  local program
  for program in $(programs '*/tests/gpu/*_test'); do
    part "$(basename "$program")" 90 3 "$program" --gtest_brief=1 --gtest_filter="${filter:-*}"
  done
}

# Out of memory, several threads, ten thousand replays.
run_backend() {
  local program
  for program in $(programs '*/tests/cuda/*_test'); do
    part "$(basename "$program")" 120 12 "$program" --gtest_brief=1
  done
}

run_runner() {
  local arguments
  read -ra arguments <<<"${ENCORE_RUNNER_ARGS:---logit-tolerance=0.02 --reference-tolerance=0.5}"
  part encore_runner_test 300 30 "$(programs '*/encore_runner_test')" --plugin="$plugin" \
    --gtest_brief=1 "${arguments[@]}"
}

run_reference() {
  local program file name wanted
  program=$(programs '*/encore_reference_test')
  read -ra wanted <<<"${ENCORE_REFERENCE_MODELS:-llama llama_tied qwen2 qwen3}"
  for name in "${wanted[@]}"; do
    file=$scratch/reference/$name
    if [ ! -f "$file.json" ]; then
      part "make $name" 120 6 python3 "$root/tests/goldens/gpu_reference.py" "$scratch/reference" \
        "$name" || continue
    fi
    part "$name" 60 30 "$program" --plugin="$plugin" --model="$file" --reference="$file.json" \
      --gtest_brief=1
  done
}

run_conformance() {
  part conformance 400 20 "$build/bin/encore-plugin-check" "$plugin"
}

# What people call, once each, with a small model.
run_verbs() {
  need_model "${ENCORE_VERB_SHAPE:-llama-3.2-1b}" || return
  write_config
  part "plugins list" 30 20 "$build/bin/encore" plugins list
  part devices 30 20 "$build/bin/encore" devices
  part doctor 60 40 "$build/bin/encore" doctor "$scratch/bench.yaml"
  part graphs 60 30 "$build/bin/encore" graphs "$scratch/bench.yaml" --html "$logs/graphs.html"
  part lazy 60 25 "$build/bin/encore" run "$scratch/bench.yaml" --set capture.lazy=true -p Hello \
    --max-tokens 64 -v
}

# Every memory budget while another process holds most of the device.
run_memory() {
  need_model "${ENCORE_VERB_SHAPE:-llama-3.2-1b}" || return
  write_config
  part "memory budgets" 200 24 python3 "$root/bench/gpu/memory_budgets.py" "$build/bin/encore" \
    "$scratch/bench.yaml"
}

write_config() {
  cat >"$scratch/bench.yaml" <<YAML
model: {path: $model}
backend: {name: cuda}
kv_cache: {page_size: 16, dtype: bf16}
scheduler: {max_running_requests: 64, max_tokens_per_step: 4096, max_context: 4096}
capture: {prefill: full, decode: true}
YAML
}

# From nothing to tokens: a first start, which has yet to time what is fastest, and the next one.
run_start() {
  local shape start kept
  kept=$(mktemp -d "$scratch/kept.XXXXXX")
  for shape in $shapes; do
    need_model "$shape" || continue
    write_config
    for start in first next; do
      part "$shape $start start" 60 40 env XDG_CACHE_HOME="$kept" "$build/bin/encore" run \
        "$scratch/bench.yaml" -p Hello --max-tokens 8 -v
    done
  done
}

# bench_case NAME ARGUMENTS...: one run of `encore bench`, its table shown.
bench_case() {
  local name=$1
  shift
  part "$name" 90 8 "$build/bin/encore" bench "$scratch/bench.yaml" --quiet "$@"
}

run_bench() {
  local program shape
  for program in $(programs '*/bench/gpu/*'); do
    part "$(basename "$program")" 40 60 "$program"
  done
  for shape in $shapes; do
    need_model "$shape" || continue
    write_config
    bench_case "$shape decode" -p 0 -g 64 -d 1024 -b 1,8,64 -r 5
    bench_case "$shape prefill 1x4096" -p 4096 -g 0 -b 1 -r 5
    bench_case "$shape prefill 4x1024" -p 1024 -g 0 -b 4 -r 5
    bench_case "$shape prefill 16x256" -p 256 -g 0 -b 16 -r 5
    bench_case "$shape prefill 1x128" -p 128 -g 0 -b 1 -r 5
  done
}

run_baseline() {
  local shape
  for shape in $shapes; do
    part "transformers $shape" 170 12 python3 "$root/bench/compare/gpu_baseline.py" \
      --shape "$shape" --json "$logs/baseline-$shape.json"
  done
}

# small_filter TOOL PROGRAM: tests that reach every kernel at small shapes, since programs run 10 to
# 100 times slower here; nothing for a program that the tool is not for. Attention's numbers are
# the plain path, then each head_dim by mma.sync, by wgmma, and by what AMD runs.
small_filter() {
  case $1:$(basename "$2") in
    *_attention_decode_test)
      echo '*ShapeTest*/1:*ShapeTest*/2:*ShapeTest*/3:*ShapeTest*/4:*ShapeTest*/11:*ShapeTest*/14' \
        '*ShapeTest*/18:*FewerLive*' | tr ' ' ':' ;;
    *_attention_mixed_test)
      echo 'Paths/MixedTest.PromptsChunks*/0:*PromptsChunks*/13:*PromptsChunks*/16:*PromptsChunks*/19' \
        '*PromptsChunks*/26:*PromptsChunks*/29:*PromptsChunks*/32:*NothingLive/32:*FewerLive*/32' \
        '*PromptsChunks*/65:*PromptsChunks*/68:*PromptsChunks*/71' |
        tr ' ' ':' ;;
    *_attention_rope_test) echo '*NewKeys*:*Pieces*:*Norms*:*AStepWithout*' ;;
    *_gpu_linear_test) echo '*' ;;
    memcheck:*_decode_linear_test) echo '*SmallestShape:*AddsInEveryForm' ;;
    *_linear_test) echo '*SmallestShape' ;;
    racecheck:*_sample_test) echo '*:-*DrawsFollow*:*LargeVocabularies*' ;;
    # Ranks wait for each other's kernels, which the tools run one by one.
    *_all_reduce_test) echo '*WhatCannotBeDone*' ;;
    # Kernels of the vendor's own; none; a second user of the profiling interface.
    racecheck:*_cublas_lt_test | *_host_test | *_kernel_name_test | *_nvml_test | \
      *_step_trace_test) ;;
    *) echo '*' ;;
  esac
}

run_sanitize() {
  local program tool tests
  for tool in $sanitizers; do
    for program in $(programs '*/tests/gpu/*_test'); do
      tests=${filter:-$(small_filter "$tool" "$program")}
      [ -n "$tests" ] || continue
      part "$tool $(basename "$program")" 60 4 compute-sanitizer --tool "$tool" \
        --error-exitcode 3 "$program" --gtest_brief=1 --gtest_filter="$tests"
    done
  done
}

sections=("$@")
[ $# -eq 0 ] && sections=(kernels backend runner reference conformance verbs memory start
  bench baseline sanitize)
for section in "${sections[@]}"; do
  case $section in
    kernels | backend | runner | reference | conformance | verbs | memory | start | bench | \
      baseline | sanitize) ;;
    *) echo "error: no section '$section'" >&2; exit 2 ;;
  esac
done
describe_machine
for section in "${sections[@]}"; do
  echo "=== $section"
  : >"$logs/$section.log"
  "run_$section"
done
echo "=== summary"
printf '%s\n' "${summary[@]}"
[ "$failures" -eq 0 ]
