#!/usr/bin/env bash
# Fetches an emulator, a static shell and the newest kernel of each version as Debian packages and unpacks them into a
# folder, without touching what is installed: fetch.sh FOLDER VERSION... What is there already is kept; what can't be had is
# an error.
set -euo pipefail
folder=$1
shift
fail() { printf 'kernels: %s\n' "$*" >&2; exit 1; }
mkdir -p "$folder/kernels"
# One at a time.
exec 9>"$folder/lock"
flock 9

missing=()
for version; do [ -e "$folder/kernels/$version/vmlinuz" ] || missing+=("$version"); done
[ ! -e "$folder/root/complete" ] || ((${#missing[@]})) || exit 0

# What is in the making, and apt's lists and packages.
work=$folder/work
rm -rf "$work"
mkdir -p "$work"/{lists/partial,archives/partial,root}
trap 'rm -rf "$work"' EXIT

# The machine's own mirror, with the suites that have the kernels.
mirror=$(grep -rhoE '^(deb |URIs:)[^#]*https?://[^ ]+/debian/?( |$)' /etc/apt/sources.list /etc/apt/sources.list.d 2>/dev/null |
    grep -oE 'https?://[^ ]+' | sed -n '1s,/*$,,p' || true)
[ -n "$mirror" ] || fail 'no Debian mirror in the sources of apt'
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
for suite in bullseye-security bookworm-security bookworm trixie-backports; do
    case $suite in *-security) from=$mirror-security ;; *) from=$mirror ;; esac
    echo "deb [signed-by=$keyring] $from $suite main"
done >"$work/sources.list"
apt=(-q -o "Dir::Etc::sourcelist=$work/sources.list" -o Dir::Etc::sourceparts=/dev/null -o "Dir::State::lists=$work/lists"
    -o "Dir::Cache=$work" -o Dir::Cache::pkgcache=pkgcache.bin -o APT::Sandbox::User=root)
apt-get "${apt[@]}" update

# Downloads a package and unpacks it: unpack PACKAGE FOLDER.
unpack() {
    (cd "$work" && apt-get "${apt[@]}" download "$1")
    dpkg-deb -x "$work/$1"_*.deb "$2"
}

for version in "${missing[@]}"; do
    # From 6.19 on linux-image is an empty package beside linux-binary.
    for kind in linux-binary linux-image; do
        name=$(apt-cache "${apt[@]}" pkgnames "$kind-$version" | grep -E "^$kind-${version//./\\.}[.+-].*[0-9]-cloud-amd64$" |
            sort -V | tail -n 1 || true)
        [ -z "$name" ] || break
    done
    [ -n "$name" ] || fail "the mirror has no kernel $version"
    unpack "$name" "$work/$version"
    # In /boot, from 7.2 on in /usr/lib/modules.
    image=$(find "$work/$version" -name 'vmlinuz*' -type f -print -quit)
    [ -n "$image" ] || fail "$name has no kernel in it"
    mkdir -p "$folder/kernels/$version"
    mv "$image" "$folder/kernels/$version/vmlinuz"
done

if [ ! -e "$folder/root/complete" ]; then
    unpack busybox-static "$work/root"
    # With all that it depends on, as for an empty machine; nothing is installed.
    apt-get "${apt[@]}" -y --download-only --no-install-recommends -o Dir::State::status=/dev/null install qemu-system-x86
    for package in "$work"/archives/*.deb; do dpkg-deb -x "$package" "$work/root"; done
    [ -x "$work/root/usr/bin/qemu-system-x86_64" ] || fail 'the emulator is missing'
    touch "$work/root/complete"
    rm -rf "$folder/root"
    mv "$work/root" "$folder/root"
fi
