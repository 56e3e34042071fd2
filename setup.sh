#!/usr/bin/env bash
# Installs what Twinstep needs to build and to test, from Debian 12's own archive.
#
#   ./setup.sh           everything that `bazel test //...` needs
#   ./setup.sh --fuzz    also clang 19, which `bazel build --config=fuzz` needs
#
# Run it as root, or as a user who may use sudo. It asks nothing, may be run again at any time,
# and returns at once when nothing is missing.
set -euo pipefail

packages=(
  # Build: Bazel 4.2.3 and the rule sets that it would otherwise download.
  bazel-bootstrap bazel-platforms bazel-rules-java bazel-rules-proto bazel-skylib
  g++ python3
  # Libraries.
  protobuf-compiler libprotobuf-dev
  libboost-graph-dev libboost-program-options-dev
  libsimgrid-dev libopenblas-pthread-dev
  nlohmann-json3-dev rapidjson-dev zlib1g-dev node-d3
  # Tests, benchmarks, format check.
  chromium-headless-shell
  libgtest-dev libgmock-dev libbenchmark-dev librapidcheck-dev
  clang-format-14
)

for argument in "$@"; do
  case "$argument" in
    --fuzz) packages+=(clang-19 libclang-rt-19-dev) ;;
    -h | --help)
      sed -n '2,8s/^# \{0,1\}//p' "$0"
      exit 0
      ;;
    *)
      echo "setup.sh: unknown argument '$argument' (known: --fuzz, --help)" >&2
      exit 2
      ;;
  esac
done

is_installed() {
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

missing=()
for package in "${packages[@]}"; do
  is_installed "$package" || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
  echo "setup.sh: all ${#packages[@]} packages are installed"
  exit 0
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || {
    echo "setup.sh: needs root to install ${missing[*]}; there is no sudo" >&2
    exit 1
  }
  as_root=(sudo)
fi
apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o Dpkg::Use-Pty=0 \
    -o Acquire::Retries=3 "$@" </dev/null
}

echo "setup.sh: installing ${missing[*]}"
# Another source of this machine may be out of reach; what counts is whether the install succeeds.
apt update || echo "setup.sh: apt-get update failed; trying with the lists at hand" >&2
apt install -y --no-install-recommends "${missing[@]}"
echo "setup.sh: done"
