# shellcheck shell=bash
# For the scripts of hack/ whose Python is one of its own. Sourced after hack/lib.sh (which a node image is made of, so
# that what has nothing to do with it is here), never run.

# pinned_venv NAME PINS: a virtual environment of its own in the cache, made of these pins; prints its folder.
# Callers take turns, and one that was interrupted is made anew. The pins are complete, so pip looks for no others.
pinned_venv() {
  local venv=$CACHE/$1 pins=$2 lock
  mkdir -p "$CACHE"
  exec {lock}>"$CACHE/$1.lock"
  flock "$lock"
  if ! cmp -s "$pins" "$venv/made-of"; then
    say "making $venv"
    "${PYTHON:-python3}" -m venv --clear "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --require-hashes -r "$pins" >&2
    cp "$pins" "$venv/made-of"
  fi
  exec {lock}>&-
  echo "$venv"
}
