#!/usr/bin/env bash
# Builds the other targets, from the compiler's own library source, and checks each file: static, no interpreter, no libc,
# nothing writable and executable; and runs what the emulator can run, which knows no Landlock: usage, refusal, the memory
# functions. The musl file is what is released: it is built twice, and must be the same.
#
# A user with rustup needs none of this: `rustup target add TARGET && cargo build --release --target TARGET`. This is for
# machines that have no other target: a compiler with its sources and an emulator come as Debian packages, which
# are unpacked into a cache (OARBANK_TARGETS) and not installed.
set -euo pipefail
cd "$(dirname "$0")/.."
cache=${OARBANK_TARGETS:-${XDG_CACHE_HOME:-$HOME/.cache}/oarbank-targets}
root=$cache/root
fail() { printf 'targets: %s\n' "$*" >&2; exit 1; }

if [ ! -e "$cache/complete" ]; then
    rm -rf "$cache"
    mkdir -p "$cache/packages" "$root"
    apt-get update -q
    version=$(apt-cache depends libstd-rust-web-dev | sed -n 's/.*Depends: \(libstd-rust-web-[0-9.]*\)$/\1/p')
    llvm=$(apt-cache depends "$version" | sed -n 's/.*Depends: \(libllvm[0-9]*\)$/\1/p' | head -n 1)
    (cd "$cache/packages" && apt-get download -q rustc-web rust-web-src libstd-rust-web-dev "$version" ${llvm:+"$llvm"} qemu-user-static)
    for package in "$cache"/packages/*.deb; do dpkg-deb -x "$package" "$root"; done
    source=$(echo "$root"/usr/src/rustc-*/library)
    [ -d "$source" ] || fail 'the library source is missing'
    rm -rf "$root/usr/lib/rustlib/src"
    mkdir -p "$root/usr/lib/rustlib/src/rust"
    ln -s "$source" "$root/usr/lib/rustlib/src/rust/library"
    touch "$cache/complete"
fi

lld=$(rustc --print sysroot)/lib/rustlib/$(rustc -vV | sed -n 's/^host: //p')/bin/rust-lld
[ -x "$lld" ] || fail 'the toolchain has no rust-lld'

libraries_of_compiler=$root/usr/lib/$(uname -m)-linux-gnu
released=x86_64-unknown-linux-musl

# Without this a musl target links the C library's start files.
flags() { case $1 in *musl) echo -Clink-self-contained=no ;; esac; }

# Builds a target in this folder, into another one.
build() {
    local linker
    linker=CARGO_TARGET_$(tr 'a-z-' 'A-Z_' <<<"$1")_LINKER
    env "$linker=$lld" RUSTFLAGS="$(flags "$1")" RUSTC="$root/usr/bin/rustc" RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR="$2" \
        LD_LIBRARY_PATH="$libraries_of_compiler" cargo build -q -Zbuild-std=core --release --locked --target "$1"
}

# Builds and runs the check of the memory functions, which each architecture has in its own words.
memory() {
    local libraries=target/targets/$1/release/deps
    RUSTC_BOOTSTRAP=1 LD_LIBRARY_PATH="$libraries_of_compiler" "$root/usr/bin/rustc" --target "$1" --edition 2024 -O \
        -Cpanic=abort -Crelocation-model=static $(flags "$1") -Clinker="$lld" -Clink-arg=-static -Clink-arg=-no-pie \
        -Zunstable-options -L "$libraries" --extern noprelude:core="$(ls -t "$libraries"/libcore-*.rlib | head -n 1)" \
        -o "$cache/memory" tests/targets/memory.rs
    local code=0
    "$emulator" "$cache/memory" || code=$?
    ((code == 0)) || fail "$1: check $code of tests/targets/memory.rs"
}

for target in "$released" aarch64-unknown-linux-musl aarch64-unknown-linux-gnu riscv64gc-unknown-linux-gnu; do
    build "$target" target/targets
    binary=target/targets/$target/release/oarbank-agent
    headers=$(readelf -hlW "$binary")
    grep -q 'Type: *EXEC' <<<"$headers" || fail "$target: not an ET_EXEC file"
    ! grep -qE 'INTERP|DYNAMIC| RWE ' <<<"$headers" || fail "$target: an interpreter, not static, or writable and executable"
    grep -qE 'GNU_STACK.* RW +0' <<<"$headers" || fail "$target: the stack is executable, or its header is missing"
    ! strings "$binary" | grep -qE 'glibc|GLIBC|musl|ld-linux|\.cargo/|rustc-' || fail "$target: a name of a C library, or a path of the builder"
    emulator=$root/usr/bin/qemu-${target%%-*}-static
    emulator=${emulator/riscv64gc/riscv64}
    [ "$("$emulator" "$binary" --version)" = "$("$emulator" "$binary" sandbox-exec --version)" ] || fail "$target: --version"
    code=0; "$emulator" "$binary" sandbox-exec 2>/dev/null || code=$?
    ((code == 64)) || fail "$target: usage exits with $code"
    code=0; message=$("$emulator" "$binary" sandbox-exec tests/sample-policy.json -- /bin/true 2>&1) || code=$?
    ((code == 70)) && [[ $message == *Landlock* ]] || fail "$target: without Landlock: $code, $message"
    memory "$target"
    echo "$target: $(stat -c %s "$binary") bytes, sha256 $(sha256sum <"$binary" | cut -d' ' -f1)"
done

# The released file from another folder.
other=$(mktemp -d)
trap 'rm -rf "$other"' EXIT
tar --create --exclude=./target --exclude=./.git --exclude=./tests/fuzz/target . | tar --extract --directory "$other"
(cd "$other" && build "$released" "$other/built")
cmp "target/targets/$released/release/oarbank-agent" "$other/built/$released/release/oarbank-agent" ||
    fail "$released: another folder gives other bytes"
echo "$released: the same from another folder"
