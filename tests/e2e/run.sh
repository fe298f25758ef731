#!/bin/sh
# run.sh TEST.py: CTest's entry to the Python tests of this folder. Exit status 77 says "skipped".
if [ -z "$ENCORE_TEST_PYTHON" ]; then
  echo "skipped: ENCORE_TEST_PYTHON names no Python interpreter with what tools/requirements-e2e.txt lists"
  exit 77
fi
exec "$ENCORE_TEST_PYTHON" -B "$(dirname "$0")/$1"
