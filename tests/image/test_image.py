"""The image that ./dev image builds: what is in it, and that its entry point does its one job.

Runs the real release program in an unpacked image, as root does with a container: chroot, another user.
"""

import hashlib
import io
import json
import os
import pathlib
import re
import stat
import subprocess
import sys
import tarfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import image  # noqa: E402  pylint: disable=wrong-import-position

BUILT = ROOT / "build/release/bin"
PLUGIN = pathlib.Path(os.environ.get("CSI_DELTA_PLUGIN") or BUILT / image.PLUGIN)
PROGRAMS = ["--plugin", PLUGIN, "--program", BUILT / image.PROGRAM]
INSTALLED = f"target/{image.PLUGIN}"


def build(path):
    subprocess.run([sys.executable, ROOT / "scripts" / "image.py", *PROGRAMS, "--output", path],
                   check=True, stdin=subprocess.DEVNULL)
    return path


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    return build(tmp_path_factory.mktemp("image") / "image.tar")


def members(path):
    with tarfile.open(path) as tar:
        return {entry.name: tar.extractfile(entry).read() for entry in tar.getmembers() if entry.isfile()}


@pytest.fixture(scope="module")
def parts(archive):
    """(configuration, layer) as a runtime finds them: from the index on, every digest checked."""
    blobs = members(archive)

    def blob(descriptor):
        content = blobs["blobs/sha256/" + descriptor["digest"].removeprefix("sha256:")]
        assert f"sha256:{hashlib.sha256(content).hexdigest()}" == descriptor["digest"]
        assert len(content) == descriptor["size"]
        return content

    manifest = json.loads(blob(json.loads(blobs["index.json"])["manifests"][0]))
    docker = json.loads(blobs["manifest.json"])[0]
    assert json.loads(blobs[docker["Config"]]) == json.loads(blob(manifest["config"]))
    assert blobs[docker["Layers"][0]] == blob(manifest["layers"][0])
    return json.loads(blob(manifest["config"])), blob(manifest["layers"][0])


@pytest.fixture
def container(parts, tmp_path):
    """The unpacked image with an empty plugin volume at /target; only that is writable for its user."""
    root = tmp_path / "root"
    root.mkdir(mode=0o755)
    with tarfile.open(fileobj=io.BytesIO(parts[1])) as layer:
        layer.extractall(root)
    (root / "target").mkdir()
    (root / "target").chmod(0o777)
    return root


def start(container, entry_point, user):
    """Runs the entry point with nothing else: no argument, no variable, no other file system."""
    return subprocess.run(["/usr/sbin/chroot", f"--userspec={user}:{user}", "--groups=", container,
                           *entry_point],
                          env={}, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL,
                          timeout=20)


@pytest.mark.parametrize("user", [image.USER, 1000730000, 0])
def test_entry_point_installs_the_plugin(container, parts, user):
    entry_point = parts[0]["config"]["Entrypoint"]
    for _ in range(2):  # A restarted Pod finds the plugin of the last start.
        done = start(container, entry_point, user)
        assert done.returncode == 0, done.stderr
        assert os.listdir(container / "target") == [image.PLUGIN]
        installed = container / INSTALLED
        assert stat.S_IMODE(installed.stat().st_mode) == 0o755
        assert installed.read_bytes() == PLUGIN.read_bytes()


def test_installed_plugin_runs(container, parts):
    assert start(container, parts[0]["config"]["Entrypoint"], image.USER).returncode == 0
    done = start(container, [f"/{INSTALLED}", "version"], image.USER)
    assert done.returncode == 0, done.stderr
    assert image.project_version() in done.stdout + done.stderr


def test_entry_point_fails_clearly_where_it_may_not_write(container, parts):
    (container / "target").chmod(0o755)
    done = start(container, parts[0]["config"]["Entrypoint"], image.USER)
    assert done.returncode != 0
    assert "/target" in done.stderr


def test_content(parts):
    configuration, layer = parts
    with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
        entries = {entry.name: entry for entry in tar.getmembers()}
        passwd = tar.extractfile("etc/passwd").read().decode()
        bundle = tar.extractfile("etc/ssl/certs/ca-certificates.crt").read()
    assert [name for name, entry in entries.items() if entry.isfile()] == [
        f"bin/{image.PROGRAM}", "etc/group", "etc/passwd", "etc/ssl/certs/ca-certificates.crt",
        f"plugins/{image.PLUGIN}"]
    assert entries[f"plugins/{image.PLUGIN}"].mode == 0o755
    assert entries[f"bin/{image.PROGRAM}"].mode == 0o755
    assert {(entry.uid, entry.gid, entry.mtime) for entry in entries.values()} == {(0, 0, 0)}
    assert passwd.startswith(f"nonroot:x:{image.USER}:")
    assert bundle.count(b"BEGIN CERTIFICATE") > 50
    assert configuration["config"]["User"] == f"{image.USER}:{image.USER}"


def test_same_inputs_give_the_same_bytes(archive, tmp_path):
    assert build(tmp_path / "again.tar").read_bytes() == archive.read_bytes()


def test_dockerfile_makes_the_same_image(parts):
    runtime = (ROOT / "Dockerfile").read_text().split("FROM scratch")[1]
    entry_point = json.loads(re.search(r"^ENTRYPOINT (.*)$", runtime, re.MULTILINE)[1])
    assert entry_point == parts[0]["config"]["Entrypoint"]
    assert re.search(r"^USER (.*)$", runtime, re.MULTILINE)[1] == parts[0]["config"]["User"]
    assert re.findall(r"^COPY (.*)$", runtime, re.MULTILINE) == ["--from=build /image/ /"]


def test_a_dynamic_program_is_refused(tmp_path):
    done = subprocess.run([sys.executable, ROOT / "scripts" / "image.py", *PROGRAMS[:3], "/bin/ls",
                           "--output", tmp_path / "image.tar"], check=False, capture_output=True, text=True,
                          stdin=subprocess.DEVNULL)
    assert done.returncode == 1
    assert "link it statically" in done.stderr
    assert not (tmp_path / "image.tar").exists()
