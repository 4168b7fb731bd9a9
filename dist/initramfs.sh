#!/usr/bin/env bash
# An initramfs that starts a program confined: dist/initramfs.sh BINARY POLICY.json BUSYBOX OUT.cpio.gz [PROGRAM...]
# BUSYBOX is a static one (Debian: busybox-static), for mounts and a shell; PROGRAM is what runs confined, /bin/sh if not given.
set -euo pipefail
binary=$1 policy=$2 busybox=$(realpath "$3") out=$(realpath "$4")
shift 4
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
chmod 755 "$root"
mkdir "$root"/{bin,dev,proc,sys,tmp,work}
install -m 755 "$binary" "$root/bin/oarbank-agent"
install -m 755 "$busybox" "$root/bin/busybox"
ln -s busybox "$root/bin/sh"
install -m 644 "$policy" "$root/policy.json"
cat >"$root/init" <<END
#!/bin/busybox sh
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sysfs /sys
/bin/busybox mount -t devtmpfs devtmpfs /dev
exec /bin/oarbank-agent sandbox-exec /policy.json -- $(printf '%q ' "${@:-/bin/sh}")
END
chmod 755 "$root/init"
find "$root" -exec touch -hd "@${SOURCE_DATE_EPOCH:-0}" {} +
(cd "$root" && find . | LC_ALL=C sort | "$busybox" cpio -o -H newc -R 0:0) | gzip -9n >"$out"
