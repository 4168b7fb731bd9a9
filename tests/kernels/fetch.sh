#!/usr/bin/env bash
# Fetches kernels, an emulator and a static shell as Debian packages and unpacks them into a folder, without touching what is
# installed: fetch.sh FOLDER. Prints nothing and succeeds if all of it is there already.
set -euo pipefail
folder=$1
[ ! -e "$folder/complete" ] || exit 0
fail() { printf 'kernels: %s\n' "$*" >&2; exit 1; }
rm -rf "$folder"
mkdir -p "$folder"/{lists/partial,cache/archives/partial,packages,root}

# The machine's own mirror, and the suites that have the kernels.
mirror=$(grep -rhoE '^(deb |URIs: *)[^ ]*https?://[^ ]+/debian/? *' /etc/apt/sources.list /etc/apt/sources.list.d 2>/dev/null |
    grep -oE 'https?://[^ ]+' | sed -n 1p || true)
[ -n "$mirror" ] || fail 'no Debian mirror in the sources of apt'
mirror=${mirror%/}
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
for suite in bullseye-security bookworm-security; do
    echo "deb [signed-by=$keyring] $mirror-security $suite main"
done >"$folder/sources.list"
for suite in bookworm trixie-backports; do
    echo "deb [signed-by=$keyring] $mirror $suite main"
done >>"$folder/sources.list"
apt=(-q -o "Dir::Etc::sourcelist=$folder/sources.list" -o Dir::Etc::sourceparts=/dev/null -o "Dir::State::lists=$folder/lists"
    -o "Dir::Cache=$folder/cache" -o Dir::Cache::pkgcache=pkgcache.bin -o APT::Sandbox::User=root)
apt-get "${apt[@]}" update

# The newest package of a version: fetch VERSION.
fetch() {
    local name
    name=$(apt-cache "${apt[@]}" pkgnames | grep -E "^linux-(image|binary)-$1[.0-9+a-z-]*-cloud-amd64$" |
        grep -vE 'unsigned|dbg' | sort -V | tail -n 1)
    [ -n "$name" ] || fail "the mirror has no kernel $1"
    # From 6.19 on linux-image is an empty package beside linux-binary.
    local binary=${name/linux-image/linux-binary}
    if apt-cache "${apt[@]}" show "$binary" >/dev/null 2>&1; then name=$binary; fi
    mkdir -p "$folder/kernels/$1"
    (cd "$folder/packages" && apt-get "${apt[@]}" download "$name")
    dpkg-deb -x "$folder"/packages/"$name"_*.deb "$folder/kernels/$1/unpacked"
    local image
    image=$(find "$folder/kernels/$1/unpacked" -name 'vmlinuz*' -type f | head -n 1)
    [ -n "$image" ] || fail "$name has no kernel in it"
    mv "$image" "$folder/kernels/$1/vmlinuz"
    rm -rf "$folder/kernels/$1/unpacked"
}
for version in 5.10.0 6.1.0 6.12 6.18 7.0 7.1 7.2 7.3; do fetch "$version"; done

(cd "$folder/packages" && apt-get "${apt[@]}" download busybox-static)
# With all that it depends on, as for an empty machine; nothing is installed.
apt-get "${apt[@]}" -y --download-only --no-install-recommends -o Dir::State::status=/dev/null install qemu-system-x86
for package in "$folder"/packages/busybox-static_*.deb "$folder"/cache/archives/*.deb; do
    dpkg-deb -x "$package" "$folder/root"
done
[ -x "$folder/root/usr/bin/qemu-system-x86_64" ] || fail 'the emulator is missing'
rm -rf "$folder/packages" "$folder/cache" "$folder/lists"
touch "$folder/complete"
