# shellcheck shell=bash
# What the scripts of hack/kind share on top of hack/lib.sh. Sourced, never run.
# shellcheck disable=SC2034  # some names are read by the scripts that source this file

KIND=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
HACK=${KIND%/*}
# shellcheck source=../lib.sh
. "$HACK/lib.sh"

# The node image that kind $KIND_VERSION names as its default, for machines that reach its registry.
STOCK_NODE_IMAGE=kindest/node:v1.37.0@sha256:a1ed56cfb0e7b93589bdf97c8cd566405a265939e3620fc4f5de89adff580ae5
LOCAL_NODE_IMAGE=kindest/node:$K8S_VERSION-local

DOCKER_STATE=$CACHE/docker
export PATH=$BIN:$PATH
mkdir -p "$BIN" "$DOCKER_STATE"

# need_packages COMMAND=PACKAGE… installs the Debian packages of the commands that are missing.
need_packages() {
  local pair missing=()
  for pair; do
    command -v "${pair%%=*}" >/dev/null || missing+=("${pair#*=}")
  done
  ((${#missing[@]})) || return 0
  command -v apt-get >/dev/null || die "needs ${missing[*]}, and there is no apt-get to install them with"
  say "installing ${missing[*]}"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# provide_kind makes the pinned kind; without Go the one on PATH must do.
provide_kind() {
  if command -v go >/dev/null; then
    "$HACK/tools" kind
  elif ! command -v kind >/dev/null; then
    die "needs kind $KIND_VERSION: install it, or Go 1.24 or newer to build it with"
  fi
}

image_exists() { docker image inspect "$1" >/dev/null 2>&1; }

# pull IMAGE fails within 30 s where no registry answers; the pull itself may take its time.
pull() {
  timeout 30 docker manifest inspect "$1" >/dev/null 2>&1 && docker pull --quiet "$1" >&2
}

# build_image TAG CONTEXT [OPTION…]
# With the classic builder: it needs no plugin, and does not take a `# syntax=` line for a pull. The
# host's network spares the build a resolver of its own.
build_image() {
  local tag=$1 context=$2 log
  shift 2
  log=$(mktemp)
  if ! DOCKER_BUILDKIT=0 docker build --network host --pull=false -t "$tag" "$@" "$context" >"$log" 2>&1; then
    tail -n 30 "$log" >&2
    rm -f "$log"
    die "could not build the image $tag"
  fi
  rm -f "$log"
}
