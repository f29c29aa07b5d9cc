# Sourced by the other scripts: a virtual environment in .venv with this project and what `prepare` is asked for
# ("run" or "dev"), made once, and again when pyproject.toml changes or the checkout has moved.
set -eu
root=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
venv="$root/.venv"
python="$venv/bin/python"

find_python() {
  for each in python3.13 python3.12 python3.11 python3 python; do
    if command -v "$each" >/dev/null 2>&1 && "$each" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      command -v "$each"
      return
    fi
  done
  echo "roofline needs Python 3.11 or newer, and none is on the PATH." >&2
  return 1
}

make_venv() {
  base=$(find_python)
  rm -rf "$venv"
  if ! "$base" -m venv "$venv" >/dev/null 2>&1; then
    rm -rf "$venv"
    sudo=""
    [ "$(id -u)" = 0 ] || sudo="sudo -n"
    echo "Installing python3-venv, which this Python lacks ..." >&2
    if ! { $sudo apt-get update -q && $sudo apt-get install -y -q python3-venv; } >&2; then
      echo "Python's venv module is missing. Install it (apt-get install python3-venv) and run this again." >&2
      return 1
    fi
    "$base" -m venv "$venv"
  fi
}

install() {
  echo "Setting up $venv ($1), once ..." >&2
  "$python" -m pip install -q --disable-pip-version-check -U 'pip>=25.1' >&2
  "$python" -m pip install -q --disable-pip-version-check -e "$root" >&2
  # Where Python may not write bytecode as it goes, each start would compile the whole package again.
  "$python" -m compileall -q "$root/src" >&2 || true
  [ "$1" = run ] || (cd "$root" && "$python" -m pip install -q --disable-pip-version-check --group "$1") >&2
}

prepare() {
  stamp="$venv/.$1-$({ cat "$root/pyproject.toml"; echo "$root"; } | cksum | tr ' ' '-')"
  [ -e "$stamp" ] && [ -x "$python" ] && return
  # One at a time, where the machine has a lock to offer.
  if command -v flock >/dev/null 2>&1; then
    exec 9>"$root/.venv.lock"
    flock 9
    [ -e "$stamp" ] && [ -x "$python" ] && { exec 9>&-; return; }
  fi
  "$python" -c '' 2>/dev/null && [ -e "$venv/.root-$(echo "$root" | cksum | tr ' ' '-')" ] || make_venv
  install "$1"
  touch "$stamp" "$venv/.root-$(echo "$root" | cksum | tr ' ' '-')"
  if command -v flock >/dev/null 2>&1; then exec 9>&-; fi
}

# A browser for the tests of pages, once, where there is none and this may install one; without it those tests say so.
browser() {
  for each in chromium chromium-browser google-chrome google-chrome-stable; do
    if command -v "$each" >/dev/null 2>&1; then return 0; fi
  done
  [ -e "$venv/.no-browser" ] && return 0
  if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
    echo "Installing chromium for the tests of pages, once ..." >&2
    if { apt-get update -q && apt-get install -y -q --no-install-recommends chromium; } >&2; then return 0; fi
  fi
  [ -n "${CI:-}" ] || touch "$venv/.no-browser"
  return 0
}
