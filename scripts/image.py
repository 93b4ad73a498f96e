#!/usr/bin/python3
"""Builds the plugin's container image without a container daemon.

    image.py --plugin FILE --program FILE --output IMAGE.tar
                                    an archive for `docker load`, `ctr image import`, or skopeo
    image.py --plugin FILE --program FILE --tree DIR
                                    only the files, for the Dockerfile

The image holds the static plugin, csi-delta, CA certificates and a passwd entry for its user; its entry point
copies the plugin to /target. The same inputs give the same bytes: every timestamp is 0.
"""

import argparse
import hashlib
import io
import json
import pathlib
import re
import struct
import sys
import tarfile
import typing

ROOT = pathlib.Path(__file__).resolve().parents[1]
PLUGIN = "velero-plugin-for-csi-delta"
PROGRAM = "csi-delta"
USER = 65532
ENTRY_POINT = [f"/plugins/{PLUGIN}", "install", "/target"]
CERTIFICATES = pathlib.Path("/usr/share/ca-certificates/mozilla")  # The package's, none of the machine's own.
ARCHITECTURES = {62: "amd64", 183: "arm64"}  # ELF e_machine.
PT_INTERP = 3
CREATED = "1970-01-01T00:00:00Z"


class File(typing.NamedTuple):
    """One file of the image."""

    path: str  # Without a leading slash.
    mode: int
    content: bytes | None  # None: a folder.


def elf_architecture(content):
    """The architecture of a static 64-bit ELF program. ValueError if it is something else."""
    if content[:6] != b"\x7fELF\x02\x01":
        raise ValueError("a program is not a 64-bit little-endian ELF program")
    machine, headers_at, entry_bytes, count = struct.unpack_from("<H12xQ14xHH", content, 18)
    if PT_INTERP in (struct.unpack_from("<I", content, headers_at + index * entry_bytes)[0] for index in range(count)):
        raise ValueError("a program needs a dynamic loader, and the image has none: link it statically")
    if machine not in ARCHITECTURES:
        raise ValueError(f"unknown ELF machine {machine}")
    return ARCHITECTURES[machine]


def certificates():
    """One bundle of all certificates of Debian's ca-certificates."""
    parts = [path.read_bytes().rstrip(b"\n") + b"\n" for path in sorted(CERTIFICATES.glob("*.crt"))]
    if not parts:
        raise ValueError(f"no certificates in {CERTIFICATES}: install ca-certificates")
    return b"".join(parts)


def files(plugin, program):
    """What the image holds."""
    return [
        File(f"bin/{PROGRAM}", 0o755, program),
        File("etc/group", 0o644, f"nonroot:x:{USER}:\n".encode()),
        File("etc/passwd", 0o644, f"nonroot:x:{USER}:{USER}:nonroot:/:/sbin/nologin\n".encode()),
        File("etc/ssl/certs/ca-certificates.crt", 0o644, certificates()),
        File(f"plugins/{PLUGIN}", 0o755, plugin),
    ]


def make_tar(entries):
    """A tar archive of the files and their folders, owned by root, all of the time 0."""
    folders = {str(folder) for entry in entries for folder in pathlib.PurePosixPath(entry.path).parents} - {"."}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path, mode, content in [*(File(name, 0o755, None) for name in sorted(folders)), *entries]:
            info = tarfile.TarInfo(path)
            info.type = tarfile.DIRTYPE if content is None else tarfile.REGTYPE
            info.mode, info.size = mode, len(content or b"")
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def _json(document):
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def make_archive(entries, architecture, settings, tag):
    """The archive of an image of these files: an OCI image layout that is a docker archive too."""
    blobs = []

    def stored(media, content):
        digest = hashlib.sha256(content).hexdigest()
        blobs.append(File(f"blobs/sha256/{digest}", 0o644, content))
        return {"mediaType": f"application/vnd.oci.image.{media}", "digest": f"sha256:{digest}", "size": len(content)}

    layer = stored("layer.v1.tar", make_tar(entries))
    config = stored("config.v1+json", _json({  # What a runtime starts, and as which user.
        "architecture": architecture, "os": "linux", "created": CREATED, "config": settings,
        "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]},
        "history": [{"created": CREATED, "created_by": "scripts/image.py"}]}))
    manifest = stored("manifest.v1+json", _json({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config, "layers": [layer]}))
    names = {"org.opencontainers.image.ref.name": tag.rpartition(":")[2],
             "io.containerd.image.name": f"docker.io/library/{tag}" if "/" not in tag else tag}
    index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json",
             "manifests": [{**manifest, "annotations": names}]}
    docker = [{"Config": blobs[1].path, "RepoTags": [tag], "Layers": [blobs[0].path]}]
    heads = {"oci-layout": {"imageLayoutVersion": "1.0.0"}, "index.json": index, "manifest.json": docker}
    return make_tar([*(File(name, 0o644, _json(document)) for name, document in heads.items()), *blobs])


def make_image(plugin, program, tag):
    """The archive of the plugin's image."""
    settings = {
        "User": f"{USER}:{USER}", "Entrypoint": ENTRY_POINT,
        "Labels": {"org.opencontainers.image.title": PLUGIN, "org.opencontainers.image.version": project_version(),
                   "org.opencontainers.image.licenses": "Apache-2.0"},
    }
    return make_archive(files(plugin, program), elf_architecture(plugin), settings, tag)


def project_version():
    """The version that the project has in CMakeLists.txt."""
    return re.search(r"project\(\s*\S+\s+VERSION\s+(\S+)", (ROOT / "CMakeLists.txt").read_text())[1]


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plugin", type=pathlib.Path, required=True)
    parser.add_argument("--program", type=pathlib.Path, required=True)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--output", type=pathlib.Path)
    where.add_argument("--tree", type=pathlib.Path)
    options, tag = parser.parse_args(arguments), f"{PLUGIN}:{project_version()}"
    try:
        plugin, program = options.plugin.read_bytes(), options.program.read_bytes()
        if elf_architecture(plugin) != elf_architecture(program):
            raise ValueError("plugin and program are for two architectures")
        if options.tree:
            with tarfile.open(fileobj=io.BytesIO(make_tar(files(plugin, program)))) as tree:
                tree.extractall(options.tree)
            print(f"image: {options.tree}")
            return 0
        content = make_image(plugin, program, tag)
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_bytes(content)
    except (OSError, ValueError) as error:
        print(f"image: {error}", file=sys.stderr)
        return 1
    print(f"image: {options.output}: {tag}, {len(content) / (1 << 20):.1f} MiB, sha256 {hashlib.sha256(content).hexdigest()}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
