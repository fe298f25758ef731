#!/usr/bin/env bash
# load_tool.sh ENCORE [VENV]: an outside load tool, aiperf, completes a run against `encore serve`.
# It is installed into VENV (.cache/aiperf), which takes 1.2 GB and a few minutes: hence it is no
# part of tools/test. ENCORE_TEST_MODELS names the folder of the model, as for other tests.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
encore="$(realpath "${1:?usage: load_tool.sh ENCORE [VENV]}")"
venv="${2:-$here/../../.cache/aiperf}"
model="${ENCORE_TEST_MODELS:-$here/../../.cache/models}/SmolLM2-135M-Instruct.Q4_1.gguf"
requests="${ENCORE_E2E_REQUESTS:-64}"
packages=(aiperf==0.13.0 gguf==0.19.0)

scratch="$(mktemp -d)"
server=
finish() {
  [ -z "$server" ] || kill -9 "$server" 2>/dev/null || true
  rm -rf "$scratch"
}
trap finish EXIT

if ! cmp -s <(printf '%s\n' "${packages[@]}") "$venv/.installed"; then
  echo "installing ${packages[*]} into $venv"
  /usr/bin/python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check "${packages[@]}"
  printf '%s\n' "${packages[@]}" >"$venv/.installed"
fi

cat >"$scratch/config.yaml" <<CONFIG
model: {path: "$(realpath "$model")"}
backend: {name: cpu}
kv_cache: {page_size: 16, max_tokens: 16384}
scheduler: {max_running_requests: 16, max_tokens_per_step: 512, max_context: 1024}
server: {port: 0, model_name: smollm2}
CONFIG
"$encore" serve "$scratch/config.yaml" 2>"$scratch/log" &
server=$!
url=
for _ in $(seq 600); do
  url="$(grep -om1 'http://127\.0\.0\.1:[0-9]*' "$scratch/log" || true)"
  [ -z "$url" ] || [ "$(curl --silent --output /dev/null --write-out '%{http_code}' "$url/ready")" != 200 ] || break
  kill -0 "$server" || { cat "$scratch/log"; exit 1; }
  sleep 0.2
done

# It counts tokens itself, with the model's own tokenizer.
"$venv/bin/python" -B "$here/save_tokenizer.py" "$model" "$scratch/tokenizer"
"$venv/bin/aiperf" profile --model smollm2 --url "$url" --endpoint-type chat --streaming \
  --tokenizer "$scratch/tokenizer" --concurrency 16 --request-count "$requests" \
  --isl 128 --isl-stddev 40 --osl 48 --osl-stddev 16 --extra-inputs ignore_eos:true \
  --random-seed 1 --ui none --no-gpu-telemetry --no-server-metrics \
  --output-artifact-dir "$scratch/report"

"$venv/bin/python" - "$scratch/report/profile_export_aiperf.json" "$requests" <<'CHECK'
import json
import sys

report = json.load(open(sys.argv[1], encoding="utf-8"))
completed = report["request_count"]["avg"]
errors = report.get("error_request_count", {"avg": 0})["avg"]
print(f"{completed:.0f} requests completed, {errors:.0f} failed; "
      f"{report['output_token_throughput']['avg']:.1f} tokens/s, "
      f"first token p50 {report['time_to_first_token']['p50']:.0f} ms, "
      f"between tokens p50 {report['inter_token_latency']['p50']:.1f} ms")
sys.exit(completed != int(sys.argv[2]) or errors != 0)
CHECK

kill -TERM "$server"
status=0
wait "$server" || status=$?
server=
[ "$status" -eq 0 ] || { echo "the server ended with status $status"; exit 1; }
