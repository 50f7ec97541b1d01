# Finds and installs what graft is built with. Sourced by scripts/demo, scripts/check and the CI script.
#
#   graft_need_build        compiler, cmake, ninja and the libraries of the program
#   graft_need_tests        … and of the tests
#
# Nothing is installed when everything is there already. Debian and Ubuntu (apt) are tested; dnf, pacman and brew are
# here in good faith, untested.

graft_say() { printf '%s\n' "$*" >&2; }

# Succeeds when what the build needs is present, whatever installed it.
graft_has_build() {
  { command -v cc || command -v gcc || command -v clang; } >/dev/null 2>&1 || return 1
  command -v cmake >/dev/null 2>&1 && command -v ninja >/dev/null 2>&1 && command -v pkg-config >/dev/null 2>&1 || return 1
  pkg-config --exists libpng jansson libpcre2-8 libutf8proc || return 1
  printf '%s\n3.25\n' "$(cmake --version | sed -n '1s/[^0-9]*\([0-9.]*\).*/\1/p')" | sort -V | head -n 1 | grep -qx '3\.25.*'
}

graft_has_tests() { graft_has_build && pkg-config --exists cmocka; }

# Runs a line of shell as root: directly, or through sudo after asking.
graft_as_root() { # LINE
  local answer log
  local -a as_root=()
  if [ "$(id -u)" != 0 ]; then
    as_root=(sudo)
    if ! command -v sudo >/dev/null 2>&1; then
      graft_say "graft: packages are missing and there is no sudo here. Run this as root, then start again:"
      graft_say "  $1"
      return 1
    fi
    if [ "${GRAFT_YES:-}" != 1 ]; then
      if [ ! -t 0 ]; then
        graft_say "graft: packages are missing. Run this as root, or set GRAFT_YES=1 to let the script use sudo:"
        graft_say "  $1"
        return 1
      fi
      printf 'graft: packages are missing. Run this with sudo?\n  %s\n[y/N] ' "$1" >&2
      read -r answer
      case "$answer" in y | Y | yes) ;; *) graft_say "graft: not installed; nothing was changed."; return 1 ;; esac
    fi
  fi
  graft_say "graft: $1"
  log=$(mktemp)
  if ! "${as_root[@]}" sh -c "$1" >"$log" 2>&1; then
    tail -n 6 "$log" >&2
    rm -f "$log"
    graft_say "graft: installing failed; the lines above say why. Is there a network?"
    return 1
  fi
  rm -f "$log"
}

graft_install() { # apt-names --dnf names --pacman names --brew names
  local -a apt=() dnf=() pacman=() brew=()
  local list=apt
  for word in "$@"; do
    case "$word" in
      --dnf) list=dnf ;; --pacman) list=pacman ;; --brew) list=brew ;;
      *) eval "$list+=(\"\$word\")" ;;
    esac
  done
  if command -v apt-get >/dev/null 2>&1; then
    graft_as_root "apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends ${apt[*]}"
  elif command -v dnf >/dev/null 2>&1; then
    graft_as_root "dnf install -y ${dnf[*]}"
  elif command -v pacman >/dev/null 2>&1; then
    graft_as_root "pacman -S --needed --noconfirm ${pacman[*]}"
  elif command -v brew >/dev/null 2>&1; then
    brew install "${brew[@]}"
  else
    graft_say "graft: no known package manager. Install a C17 compiler, cmake 3.25 or newer, ninja, pkg-config, libpng,"
    graft_say "       jansson, pcre2, utf8proc (and cmocka for the tests), then run this again."
    return 1
  fi
}

GRAFT_BUILD_PACKAGES="gcc libc6-dev cmake ninja-build pkg-config libpng-dev libjansson-dev libpcre2-dev libutf8proc-dev"

graft_need_build() {
  graft_has_build && return 0
  # shellcheck disable=SC2086
  graft_install $GRAFT_BUILD_PACKAGES \
    --dnf gcc cmake ninja-build pkgconf libpng-devel jansson-devel pcre2-devel utf8proc-devel \
    --pacman gcc cmake ninja pkgconf libpng jansson pcre2 libutf8proc \
    --brew cmake ninja pkg-config libpng jansson pcre2 utf8proc
  graft_has_build || { graft_say "graft: the build tools are still incomplete (cmake 3.25 or newer is needed)."; return 1; }
}

graft_need_tests() {
  graft_has_tests && return 0
  # shellcheck disable=SC2086
  graft_install $GRAFT_BUILD_PACKAGES libcmocka-dev \
    --dnf gcc cmake ninja-build pkgconf libpng-devel jansson-devel pcre2-devel utf8proc-devel libcmocka-devel \
    --pacman gcc cmake ninja pkgconf libpng jansson pcre2 libutf8proc cmocka \
    --brew cmake ninja pkg-config libpng jansson pcre2 utf8proc cmocka
  graft_has_tests || { graft_say "graft: the build tools are still incomplete (cmake 3.25 or newer is needed)."; return 1; }
}
