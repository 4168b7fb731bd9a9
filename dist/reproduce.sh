#!/usr/bin/env bash
# Whether another build gives the same bytes: dist/reproduce.sh [FILE [CARGO_OPTIONS...]]
# FILE is the binary to compare with; without it, one is built here first. The other build is made from a copy of the sources in
# another folder, with another home, another umask, another clock zone and, as root, by another user with the toolchain elsewhere.
set -euo pipefail
cd "$(dirname "$0")/.."
fail() { printf 'reproduce: %s\n' "$*" >&2; exit 1; }
file=${1:-}
shift || true
if [ -z "$file" ]; then
    cargo build --quiet --release --locked
    file=${CARGO_TARGET_DIR:-target}/release/oarbank-agent
fi
[ -f "$file" ] || fail "no such file: $file"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/other folder, of another" "$work/home/.cargo" "$work/toolchain"
# What belongs to the sources, whether committed or not.
tar --create --exclude=./target --exclude=./.git --exclude=./tests/fuzz/target . | tar --extract --directory "$work/other folder, of another"
# The crates, so that no network is needed.
from=${CARGO_HOME:-$HOME/.cargo}
for part in registry/index registry/cache config.toml; do
    [ ! -e "$from/$part" ] || (cd "$from" && cp -r --parents "$part" "$work/home/.cargo")
done

toolchain=$(rustc --print sysroot)
as_other=()
if [ "$(id -u)" = 0 ] && unshare --mount true 2>/dev/null; then
    chmod -R go+rX "$work"
    chown -R 65534:65534 "$work"
    as_other=(unshare --mount bash -c 'mount --bind "$1" "$2" && shift 2 && exec "$@"' bash "$toolchain" "$work/toolchain"
        setpriv --reuid 65534 --regid 65534 --clear-groups)
    toolchain=$work/toolchain
fi
cd "$work/other folder, of another"
umask 077
env -u CARGO_TARGET_DIR HOME="$work/home" CARGO_HOME="$work/home/.cargo" TZ=Asia/Tokyo LANG=C USER=other LOGNAME=other \
    PATH="$toolchain/bin:$PATH" RUSTUP_TOOLCHAIN= "${as_other[@]}" \
    cargo install --quiet --offline --locked --no-track --path . --root "$work/home/out" "$@"
cd - >/dev/null
other=$work/home/out/bin/oarbank-agent
cmp "$file" "$other" || fail 'another build gives other bytes'
# Nor does a file say where, or by whom, it was built.
for trace in "$PWD" "$HOME/" "$work" .cargo/ .rustup/ rustc/; do
    ! grep -qaF -- "$trace" "$file" || fail "the file says where it was built: $trace"
done
echo "$(sha256sum <"$file" | cut -d ' ' -f 1), the same from two builds, as user $(id -u) and $(stat -c %u "$other"), with $(rustc --version)"
