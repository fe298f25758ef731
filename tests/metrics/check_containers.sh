#!/usr/bin/env bash
# check_containers.sh ROOT: what can be said of the container files without a container engine.
#   - the build stage installs every package that tools/lib.sh says the build needs, and no other
#   - it copies every folder that the build reads
#   - the image that runs is not root's process, is asked for its health, and listens at port 8000
#   - base images are arguments
set -euo pipefail
root="$1"
mapfile -t needed < <(
  # shellcheck source-path=SCRIPTDIR source=../../tools/lib.sh
  source "$root/tools/lib.sh"
  printf '%s\n' "${build_packages[@]}" | sort
)
[ "${#needed[@]}" -gt 10 ] || { echo "tools/lib.sh names ${#needed[@]} build packages"; exit 1; }

failures=0
complain() {
  printf '%s: %s\n' "$name" "$*"
  failures=$((failures + 1))
}

# stage NUMBER: the lines from that FROM (1 is the first) to the next, continuation lines joined.
stage() {
  awk -v wanted="$1" '/^FROM /{n++} n==wanted' "$file" | grep -v '^#' | sed -e ':a' -e '/\\$/N; s/\\\n//; ta'
}

# apt_packages: of the RUN lines on stdin.
apt_packages() {
  sed -n 's/^RUN .*apt-get install \(.*\)/\1/p' | sed 's/&&.*//' | tr -s ' ' '\n' |
    grep -Ev '^(-.*|)$' | sort
}

for name in Containerfile.cpu Containerfile.cuda; do
  file="$root/tools/container/$name"
  build_stage=1
  [ "$name" = Containerfile.cpu ] || build_stage=2
  last_stage=$((build_stage + 1))

  mapfile -t installed < <(stage "$build_stage" | apt_packages)
  for package in "${needed[@]}"; do
    [[ " ${installed[*]} " == *" $package "* ]] || complain "the build needs $package"
  done
  for package in "${installed[@]}"; do
    [[ " ${needed[*]} " == *" $package "* ]] || complain "$package is not in tools/lib.sh"
  done

  copied="$(stage "$build_stage" | sed -n 's/^COPY \([a-z]*\) \1$/\1/p')"
  while read -r folder; do
    [[ $'\n'"$copied"$'\n' == *$'\n'"$folder"$'\n'* ]] || complain "does not copy $folder"
  done < <(sed -n 's/^add_subdirectory(\([a-z]*\))$/\1/p' "$root/CMakeLists.txt" && echo cmake && echo configs)

  run="$(stage "$last_stage")"
  grep -q '^USER encore$' <<<"$run" || complain "runs as root"
  grep -Eq '^HEALTHCHECK .*127\.0\.0\.1:8000/health' <<<"$run" || complain "has no health check"
  grep -q '^EXPOSE 8000$' <<<"$run" || complain "does not expose port 8000"
  grep -Eq '^ENV .*ENCORE_SERVER__HOST=0\.0\.0\.0' <<<"$run" || complain "listens to itself alone"
  grep -q '^ENTRYPOINT \["encore"\]$' <<<"$run" || complain "does not start encore"
  ! grep -E '^FROM ' "$file" | grep -vE '^FROM \$\{[A-Z_]+\}( AS [a-z]+)?$' ||
    complain "a base image is not an argument"
  ! grep -nE '^ARG [A-Z_]*IMAGE=[^/]*\.[^/]*/' "$file" || complain "names a registry"
done
[ "$failures" -eq 0 ]
