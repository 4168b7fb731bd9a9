#!/usr/bin/env bash
# A container image FROM scratch with one layer and one file, made without a daemon: dist/oci.sh BINARY FOLDER [ARCHITECTURE]
# The folder becomes an OCI image layout (`skopeo copy oci:FOLDER docker://...`, `podman run oci:FOLDER`); its manifest's digest
# is on standard output. The same binary gives the same image. dist/Containerfile is the same for who has a builder.
set -euo pipefail
binary=$(realpath "$1")
layout=$2
architecture=${3:-amd64}
mkdir -p "$layout/blobs/sha256"
layout=$(realpath "$layout")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
install -m 755 "$binary" "$work/oarbank-agent"

# Puts a file among the blobs; its descriptor's digest and size.
blob() {
    local digest
    digest=$(sha256sum <"$1" | cut -d ' ' -f 1)
    cp "$1" "$layout/blobs/sha256/$digest"
    printf '"digest":"sha256:%s","size":%s' "$digest" "$(stat -c %s "$1")"
}

tar --create --file "$work/layer" --format ustar --sort name --mtime @0 --owner 0 --group 0 --numeric-owner \
    --directory "$work" oarbank-agent
layer=$(blob "$work/layer")
printf '{"architecture":"%s","os":"linux","config":{"Entrypoint":["/oarbank-agent"]},"rootfs":{"type":"layers","diff_ids":["%s"]}}' \
    "$architecture" "$(cut -d '"' -f 4 <<<"$layer")" >"$work/config"
type=application/vnd.oci.image
printf '{"schemaVersion":2,"mediaType":"%s.manifest.v1+json","config":{"mediaType":"%s.config.v1+json",%s},"layers":[{"mediaType":"%s.layer.v1.tar",%s}]}' \
    "$type" "$type" "$(blob "$work/config")" "$type" "$layer" >"$work/manifest"
manifest=$(blob "$work/manifest")
printf '{"schemaVersion":2,"mediaType":"%s.index.v1+json","manifests":[{"mediaType":"%s.manifest.v1+json",%s,"annotations":{"org.opencontainers.image.ref.name":"latest"}}]}' \
    "$type" "$type" "$manifest" >"$layout/index.json"
printf '{"imageLayoutVersion":"1.0.0"}' >"$layout/oci-layout"
cut -d '"' -f 4 <<<"$manifest"
