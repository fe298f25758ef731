#!/bin/sh
# variant_instructions.sh PLUGIN FORBIDDEN...: fails if the library's code names one of these
# register files: ymm (AVX), zmm (AVX-512), tmm (AMX). A variant must run on a processor without
# them: one instruction too many ends the process there.
set -eu
plugin=$1
shift
forbidden=$(echo "$@" | tr ' ' '|')
listing=$(mktemp)
trap 'rm -f "$listing"' EXIT
objdump -d --no-show-raw-insn "$plugin" >"$listing"
grep -q '%xmm' "$listing" || {
  echo "$plugin: the disassembly has no code; is objdump the right one?"
  exit 1
}
if grep -nE "%($forbidden)[0-9]" "$listing" | head -20 | grep .; then
  echo "$plugin has instructions with $forbidden registers"
  exit 1
fi
