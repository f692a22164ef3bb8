# shellcheck shell=bash
# Shared by the scripts of hack/: pinned versions, the cache, small helpers. Sourced, never run.
# shellcheck disable=SC2034  # most names are read by the scripts that source this file

shopt -s inherit_errexit # with `set -e`, a failure inside $(…) is one too

# Kubernetes stays at 1.34: a 1.35 kubelet refuses a host with cgroup v1. The versions of etcd and
# CoreDNS are the ones that `kubeadm config images list` of that release asks for.
K8S_VERSION=v1.34.4
ETCD_VERSION=v3.6.5
COREDNS_VERSION=v1.12.1
KIND_VERSION=v0.33.0
HELM_VERSION=v3.22.0

CACHE=${ELASTICJOB_CACHE:-${HOME:?"set HOME or ELASTICJOB_CACHE: the cache of built tools needs a place"}/.cache/elasticjob}
BIN=$CACHE/bin

# Standard output is for what another program reads; everything said to a person goes to standard error.
say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }
die() {
  say "$*"
  exit 1
}
