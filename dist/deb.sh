#!/usr/bin/env bash
# A Debian package of a binary that was built: dist/deb.sh target/release/oarbank-agent [FOLDER], and its path on standard output.
# It needs nothing but dpkg-deb. The same binary gives the same package (SOURCE_DATE_EPOCH, DEBFULLNAME and DEBEMAIL apart).
set -euo pipefail
binary=$(realpath "$1")
out=$(realpath "${2:-.}")
cd "$(dirname "$0")"
umask 022
version=$(sed -n 's/^version = "\(.*\)"/\1/p' ../Cargo.toml)-1
architecture=${DEB_ARCH:-$(dpkg --print-architecture)}
maintainer="${DEBFULLNAME:-oarbank-agent packagers} <${DEBEMAIL:-packagers@oarbank-agent.invalid}>"
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-1796083200}
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
chmod 755 "$root"

put() { install -D -m "${3:-644}" "$1" "$root/$2"; }
doc=usr/share/doc/oarbank-agent
put "$binary" usr/bin/oarbank-agent 755
put completions/oarbank-agent.bash usr/share/bash-completion/completions/oarbank-agent
put completions/_oarbank-agent usr/share/zsh/vendor-completions/_oarbank-agent
put completions/oarbank-agent.fish usr/share/fish/vendor_completions.d/oarbank-agent.fish
put policy.schema.json usr/share/oarbank-agent/policy.schema.json
put systemd/oarbank-module@.service "$doc/examples/oarbank-module@.service"
put ../tests/sample-policy.json "$doc/examples/policy.json"
put ../README.md "$doc/README.md"
put debian/lintian-overrides usr/share/lintian/overrides/oarbank-agent
put man/oarbank-agent.8 usr/share/man/man8/oarbank-agent.8
put man/oarbank-policy.5 usr/share/man/man5/oarbank-policy.5
# The license's text, as the fields of a copyright file want it: indented, empty lines as dots.
mit=$(sed '1,/^MIT License/d; s/^/ /; s/^ $/ ./' ../LICENSE | sed 1d)
awk -v mit="$mit" '/@MIT@/ { print mit; next } { print }' debian/copyright >"$root/$doc/copyright"
fill() { sed "s/@VERSION@/$version/; s/@ARCHITECTURE@/$architecture/; s/@MAINTAINER@/$maintainer/; s/@SIZE@/$size/"; }
size=0
fill <debian/changelog >"$root/$doc/changelog.Debian"
gzip -9n "$root/$doc/changelog.Debian" "$root"/usr/share/man/man?/*
size=$(du -sk --apparent-size "$root" | cut -f 1)
mkdir "$root/DEBIAN"
fill <debian/control >"$root/DEBIAN/control"
(cd "$root" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
find "$root" -exec touch -hd "@$SOURCE_DATE_EPOCH" {} +
package=$out/oarbank-agent_${version}_$architecture.deb
dpkg-deb --root-owner-group -Zxz --build "$root" "$package" >&2
echo "$package"
