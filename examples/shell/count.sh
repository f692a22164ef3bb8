#!/bin/sh
# A worker that is not Python: it counts to $1, a tenth of a second each, and stores its count in $2/<rank>.
# RANK and WORLD_SIZE come from the agent; progress goes, as JSON lines, to the FIFO that ELASTICJOB_PROGRESS names.
set -eu
last=$1 folder=$2
mkdir -p "$folder"
n=0
[ ! -f "$folder/$RANK" ] || n=$(cat "$folder/$RANK")
echo "rank $RANK of $WORLD_SIZE goes on from $n, in round $ELASTICJOB_ROUND"
while [ "$n" -lt "$last" ]; do
  sleep 0.1
  n=$((n + 1))
  echo "$n" >"$folder/$RANK.new"
  mv "$folder/$RANK.new" "$folder/$RANK"
  [ "$RANK" != 0 ] || echo "{\"step\": $n, \"total\": $last}" >"${ELASTICJOB_PROGRESS:-/dev/null}"
done
echo "rank $RANK: done at $n"
