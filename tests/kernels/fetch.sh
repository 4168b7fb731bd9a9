#!/usr/bin/env bash
# Fetches what the guests are made of as Debian packages and unpacks it into a folder, without touching what is installed:
# fetch.sh FOLDER ARCHITECTURE/VERSION... for the newest kernel of each version. What is there already is kept; what can't be
# had is an error.
#
# kernels/ARCHITECTURE/VERSION/vmlinuz; emulator/: QEMU and a static shell; systemd/: what a guest with systemd has; for arm64
# programs rust/: a compiler, and arm64/: the C library and a static shell.
set -euo pipefail
folder=$1
shift
fail() { printf 'kernels: %s\n' "$*" >&2; exit 1; }
mkdir -p "$folder"
# One at a time.
exec 9>"$folder/lock"
flock 9

kernels=()
for kernel; do [ -e "$folder/kernels/$kernel/vmlinuz" ] || kernels+=("$kernel"); done
parts=(emulator systemd)
case "$*" in *arm64/*) parts+=(rust arm64) ;; esac
missing=()
for part in "${parts[@]}"; do [ -e "$folder/$part" ] || missing+=("$part"); done
((${#kernels[@]} + ${#missing[@]})) || exit 0

# What is in the making, and apt's lists and packages.
work=$folder/work
rm -rf "$work"
mkdir -p "$work"/lists/partial
trap 'rm -rf "$work"' EXIT

# The machine's own mirror, with the suites that have the kernels.
mirror=$(grep -rhoE '^(deb |URIs:)[^#]*https?://[^ ]+/debian/?( |$)' /etc/apt/sources.list /etc/apt/sources.list.d 2>/dev/null |
    grep -oE 'https?://[^ ]+' | sed -n '1s,/*$,,p' || true)
[ -n "$mirror" ] || fail 'no Debian mirror in the sources of apt'
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
for suite in bullseye-security bookworm-security trixie trixie-backports; do
    case $suite in *-security) from=$mirror-security ;; *) from=$mirror ;; esac
    echo "deb [signed-by=$keyring] $from $suite main"
done >"$work/sources.list"
apt=(-q -o "Dir::Etc::sourcelist=$work/sources.list" -o Dir::Etc::sourceparts=/dev/null -o "Dir::State::lists=$work/lists"
    -o Dir::State::status=/dev/null -o "Dir::Cache=$work" -o Dir::Cache::pkgcache=pkgcache.bin -o APT::Sandbox::User=root
    -o APT::Architecture=amd64 -o APT::Architectures::=amd64 -o APT::Architectures::=arm64)
apt-get "${apt[@]}" update

# unpack FOLDER PACKAGE...: these packages alone.
unpack() {
    mkdir -p "$1" "$work/packages"
    (cd "$work/packages" && apt-get "${apt[@]}" download "${@:2}")
    for package in "$work"/packages/*.deb; do dpkg-deb -x "$package" "$1"; done
    rm -r "$work/packages"
}
# unpack_all FOLDER PACKAGE...: with all that they depend on, as for an empty machine; nothing is installed.
unpack_all() {
    mkdir -p "$1" "$work/archives/partial"
    apt-get "${apt[@]}" -y --download-only --no-install-recommends install "${@:2}"
    for package in "$work"/archives/*.deb; do dpkg-deb -x "$package" "$1"; done
    rm -r "$work/archives"
}

for kernel in "${kernels[@]}"; do
    architecture=${kernel%/*} version=${kernel#*/}
    # From 6.19 on linux-image is an empty package beside linux-binary.
    for kind in linux-binary linux-image; do
        name=$(apt-cache "${apt[@]}" pkgnames "$kind-$version" | sed 's/:.*//' |
            grep -E "^$kind-${version//./\\.}[.+-].*[0-9]-cloud-$architecture$" | sort -V | tail -n 1 || true)
        [ -z "$name" ] || break
    done
    [ -n "$name" ] || fail "the mirror has no kernel $kernel"
    unpack "$work/$kernel" "$name:$architecture"
    # In /boot, from 7.2 on in /usr/lib/modules.
    image=$(find "$work/$kernel" -name 'vmlinuz*' -type f -print -quit)
    [ -n "$image" ] || fail "$name has no kernel in it"
    mkdir -p "$folder/kernels/$kernel"
    mv "$image" "$folder/kernels/$kernel/vmlinuz"
done

for part in "${missing[@]}"; do
    root=$work/$part
    case $part in
        emulator)
            unpack_all "$root" qemu-system-x86 qemu-system-arm busybox-static
            expected=usr/bin/qemu-system-aarch64
            ;;
        systemd)
            unpack_all "$root" systemd
            # What no guest reads, and the links that only an installation makes.
            rm -rf "$root"/{etc,var,usr/share,usr/lib/systemd/boot,usr/lib/udev,usr/lib/x86_64-linux-gnu/gconv}
            for name in bin sbin lib lib64; do ln -s "usr/$name" "$root/$name"; done
            expected=usr/lib/systemd/systemd
            ;;
        rust)
            # Of the oldest suite that has it, for the C library of an old machine.
            echo "deb [signed-by=$keyring] $mirror-security bookworm-security main" >"$work/sources.list"
            driver=$(apt-cache "${apt[@]}" depends libstd-rust-web-dev | sed -n 's/.*Depends: \(libstd-rust-web-[0-9.]*\)$/\1/p')
            llvm=$(apt-cache "${apt[@]}" depends "$driver" | sed -n 's/.*Depends: \(libllvm[0-9]*\)$/\1/p' | head -n 1)
            unpack "$root" rustc-web libstd-rust-web-dev libstd-rust-web-dev:arm64 "$driver" ${llvm:+"$llvm"}
            expected=usr/lib/rustlib/aarch64-unknown-linux-gnu/lib
            ;;
        arm64)
            echo "deb [signed-by=$keyring] $mirror trixie main" >"$work/sources.list"
            unpack "$root" busybox-static:arm64 libc6-dev:arm64 libgcc-14-dev:arm64
            expected=usr/lib/gcc/aarch64-linux-gnu/14/libgcc_eh.a
            ;;
    esac
    [ -e "$root/$expected" ] || fail "$part: $expected is missing"
    mv "$root" "$folder/$part"
done
