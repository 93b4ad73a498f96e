"""Pages of docs/ whose commands need a cluster: each page is run from its first command to its last, but for what it marks as not run."""

import contextlib
import pathlib

import commands
import pytest

import components
import data
import mover
import moving
import objects
from bed import Bed, Settings

ROOT = pathlib.Path(__file__).resolve().parents[2]
MIB = 1 << 20
NAMESPACES = ("shop", "shop-try", "shop-check", "shop-pvcs")
BACKUPS = ("shop-1", "shop-2", "shop-now")
PAGE_SECONDS_MAX = 600
BEFORE = {"disaster-recovery": ("shop-2",), "security": ("shop-2",)}  # Backups that a page has already.
LATE_DRIVER = {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": "late.example.com"}, "spec": {}}
DOCTOR = 'csi-delta() { command csi-delta "$@" || [ "$1" = doctor ]; }'  # It finds faults in a test bed.
pytestmark = pytest.mark.moves


def script(page, mark=""):
    """The commands of a page that have this mark above them, as one script."""
    found = commands.blocks_of(page, (ROOT / "docs" / f"{page}.md").read_text())
    return "".join(f"{block.text}\n" for block in found if block.kind == commands.FENCED and block.mark == mark)


def run(bed, folder, typed):
    """Runs commands where the programs and the bucket are found; returns what they print."""
    programs = folder / "bin"
    programs.mkdir(exist_ok=True)
    (programs / "csi-delta").unlink(missing_ok=True)
    (programs / "csi-delta").symlink_to(components.program_path())
    return bed.run(["bash", "-c", f"set -eu\ncd {folder}\nexport PATH={programs}:$PATH AWS_ACCESS_KEY_ID={objects.ACCESS_KEY} "
                    f"AWS_SECRET_ACCESS_KEY={objects.SECRET_KEY}\n{DOCTOR}\n{typed}"], timeout_seconds=PAGE_SECONDS_MAX).stdout


@pytest.fixture(name="shop")
def fixture_shop(bed, workspace):
    """The namespace of the pages, with one written PVC."""
    for name in NAMESPACES:
        workspace.expect_namespace(bed, name)
    for name in BACKUPS:
        workspace.expect_backup(bed, name)
    bed.wait_for(lambda: not any(bed.api.get("namespaces", name) for name in NAMESPACES), moving.GONE_SECONDS_MAX,
                 "the namespaces of the page before gone")
    bed.create_namespace("shop")
    bed.create_claim("data", "shop", 16 * MIB)
    yield data.fill(bed.volume_path("data", "shop"), 1, 16 * MIB)
    bed.velero("schedule", "delete", "--all", "--confirm", check=False)


@contextlib.contextmanager
def late_driver(bed):
    """A driver that registers while a page is followed."""
    bed.api.create("csidrivers", LATE_DRIVER)
    try:
        yield
    finally:
        bed.api.delete("csidrivers", LATE_DRIVER["metadata"]["name"])


@pytest.mark.parametrize("page", ["first-incremental-backup", "schedules", "disaster-recovery", "quick-start-kind", "troubleshooting", "csi-drivers",
                                  "security"])
def test_every_command_of_a_page(bed, shop, tmp_path, page):
    for backup in BEFORE.get(page, ()):
        bed.velero("backup", "create", backup, "--include-namespaces", "shop", *moving.MOVE, "--wait")
    with late_driver(bed) if page == "csi-drivers" else contextlib.nullcontext():
        run(bed, tmp_path, script(page))
    if bed.api.get("persistentvolumeclaims", "data", "shop"):
        data.expect(bed.volume_path("data", "shop"), shop)


def test_a_lost_cluster_comes_back_by_its_page(bed, shop, tmp_path):
    bed.velero("backup", "create", "shop-2", "--include-namespaces", "shop", *moving.MOVE, "--wait")
    run(bed, tmp_path, "csi-delta mover-key export --location default > shop.keys")
    with Bed.up(Settings(plugin=True, node=True), bucket_of=bed) as new_cluster:
        mover.serve(new_cluster)
        run(new_cluster, tmp_path, script("disaster-recovery", "run in the new cluster"))
        data.expect(new_cluster.volume_path("data", "shop"), shop)
