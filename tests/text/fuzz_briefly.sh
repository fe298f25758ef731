#!/bin/sh
# CTest's entry to fuzz_tokenizers.py. Exit status 77 says "skipped".
if [ -z "$ENCORE_TEST_PYTHON" ]; then
  echo "skipped: ENCORE_TEST_PYTHON names no Python interpreter with the package tokenizers"
  exit 77
fi
exec "$ENCORE_TEST_PYTHON" -B "$(dirname "$0")/fuzz_tokenizers.py" "$1" --seconds "${ENCORE_FUZZ_SECONDS:-5}"
