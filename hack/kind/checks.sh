# shellcheck shell=bash
# What `up` checks of the host, and of a cluster before it is called usable. Sourced, never run.

INOTIFY_INSTANCES=1024
INOTIFY_CURE="sysctl -w fs.inotify.max_user_instances=$INOTIFY_INSTANCES"
SETTLED_S=5 # a program that crashes at its start runs for a moment
DAEMONS_S=${DAEMONS_S:-180}
API_S=${API_S:-180}
SETS='jsonpath={range .items[*]}{.metadata.name}|{.status.desiredNumberScheduled}|{.status.numberReady}{"\n"}{end}'
PODS='jsonpath={range .items[?(@.metadata.ownerReferences[0].kind=="DaemonSet")]}{.metadata.name}'
PODS+='|{range .status.containerStatuses[*]}{.state.running.startedAt},{end}{"\n"}{end}'

# raise_inotify_limit [FILE] raises the host's limit where it is low and this user may. All nodes share it. Beyond it
# kube-proxy and the pod network end with `too many open files`.
raise_inotify_limit() {
  local file=${1:-/proc/sys/fs/inotify/max_user_instances} limit
  limit=$(<"$file")
  ((limit < INOTIFY_INSTANCES)) || return 0
  if { echo "$INOTIFY_INSTANCES" >"$file"; } 2>/dev/null; then
    say "raised fs.inotify.max_user_instances from $limit to $INOTIFY_INSTANCES"
  else
    say "fs.inotify.max_user_instances is $limit, and nodes may need more: as root, run $INOTIFY_CURE"
  fi
}

# wait_for_api KUBECTL… waits until the API server answers and knows who may do what. After docker has restarted its
# nodes, it first answers nothing, and then that nothing is allowed.
wait_for_api() {
  local deadline=$((SECONDS + API_S)) answer
  while ! answer=$("$@" get node 2>&1); do
    if ((SECONDS >= deadline)); then
      say "$answer"
      return 1
    fi
    sleep 1
  done
}

# wait_for_daemons KUBECTL… waits until the daemons of kube-system run: kube-proxy and the pod network. Nodes and
# deployments are ready while these crash.
wait_for_daemons() {
  local deadline=$((SECONDS + DAEMONS_S)) faults
  while faults=$(daemon_faults "$@"); [[ -n $faults ]]; do
    if ((SECONDS >= deadline)); then
      say "$faults"
      [[ $faults != *"too many open files"* ]] || say "this host's inotify instances are used up: as root, run $INOTIFY_CURE"
      return 1
    fi
    sleep 1
  done
}

# daemon_faults KUBECTL… prints a line for each daemon that is missing, and for each of its pods that does not run.
daemon_faults() {
  local name wanted ready started now sets pods
  sets=$("$@" get daemonset -n kube-system -o "$SETS")
  pods=$("$@" get pod -n kube-system -o "$PODS")
  now=$(date +%s)
  [[ $'\n'$sets == *$'\n'"kube-proxy|"* ]] || echo "kube-system has no DaemonSet kube-proxy"
  while IFS='|' read -r name wanted ready; do
    [[ -z $name || ($wanted -gt 0 && $ready == "$wanted") ]] || echo "$name is ready on $ready of $wanted nodes"
  done <<<"$sets"
  while IFS='|' read -r name started; do
    if [[ -n $name ]] && ! has_settled "$now" "$started"; then
      echo "$name does not run for $SETTLED_S s: $(last_words "$name" "$@")"
    fi
  done <<<"$pods"
}

# has_settled NOW TIMES: whether all containers run since these times, and long enough. A comma follows each time, which
# is empty for a container that does not run.
has_settled() {
  local now=$1 times started
  IFS=, read -ra times <<<"$2"
  ((${#times[@]})) || return 1
  for started in "${times[@]}"; do
    [[ -n $started ]] && ((now - $(date -d "$started" +%s) >= SETTLED_S)) || return 1
  done
}

# last_words POD KUBECTL… prints the last line of the container that ran before, or of the present one.
last_words() {
  local pod=$1
  shift
  "$@" logs -n kube-system "$pod" --previous --tail=1 2>/dev/null || "$@" logs -n kube-system "$pod" --tail=1 2>&1 || true
}
