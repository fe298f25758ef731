#!/bin/sh
# CTest's entry to parse_metrics.py. Exit status 77 says "skipped".
if [ -z "$ENCORE_TEST_PYTHON" ]; then
  echo "skipped: ENCORE_TEST_PYTHON names no Python interpreter with the package prometheus_client"
  exit 77
fi
"$1" | "$ENCORE_TEST_PYTHON" -B "$(dirname "$0")/parse_metrics.py"
