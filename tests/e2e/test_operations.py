"""docs/install.md and docs/operations.md, command by command."""

import json
import pathlib
import shlex

import commands as documents
import pytest

import components
import data
import metadata
import mover
import moving
import objects

ROOT = pathlib.Path(__file__).resolve().parents[2]
INSTALL, PAGE = (ROOT / "docs" / name for name in ("install.md", "operations.md"))
# How the commands of the first page begin that are run; tests/e2e/test_reference_pages.py runs the others.
INSTALLING = ("velero plugin add ", "kubectl create namespace ", "kubectl label namespace ", "helm install ",
              "kubectl rollout ", "csi-delta doctor")
MIB = 1 << 20
OLD_KIND = "datadeletions.mover.csi-delta.io"
IMAGE = "registry.example/velero-plugin-for-csi-delta"
MAY_FIND_FAULTS = "csi-delta doctor"  # A bed is no cluster to be content with.


def commands():
    """Those that install, then the indented lines of the page outside of fences. A backslash joins lines."""
    blocks = documents.blocks_of("install.md", INSTALL.read_text())
    lines = [line for block in blocks if block.is_run for line in documents.lines_of_text(block.text)]
    installing = [line for line in lines if line.startswith(INSTALLING)]
    text = "".join(PAGE.read_text().split("```")[::2]).replace("\\\n", "")
    return [*installing, *(line.strip() for line in text.splitlines() if line.startswith("    "))]


@pytest.fixture
def bed(beds):
    """A node where the data mover is yet to be installed."""
    bed = beds.get(node=True)
    metadata.serve(bed)
    if bed.api.get("namespaces", mover.NAMESPACE):
        bed.api.delete("deployments", mover.CONTROLLER, mover.NAMESPACE)
        bed.wait_for(lambda: not mover.pods(bed), mover.READY_SECONDS_MAX, "the end of the controller")
        bed.delete_namespace(mover.NAMESPACE)
    yield bed
    bed.velero("plugin", "remove", f"{IMAGE}:0.1.0", check=False)


class Terminal:
    """One shell for all commands, where Velero, kubectl, csi-delta and restic are found."""

    def __init__(self, bed, folder):
        self._bed, self._folder = bed, folder
        self.said = {}
        (folder / "bin").mkdir()
        (folder / "bin" / "csi-delta").symlink_to(components.program_path())
        (folder / "deploy").symlink_to(PAGE.parents[1] / "deploy")
        (folder / "environment").write_text("")

    def run(self, command):
        """Runs a line; what it sets is there for the next one."""
        location = self._bed.api.get("backupstoragelocations", "default", self._bed.namespace)["spec"]
        script = f"""set -eu; cd {self._folder}; . ./environment; export PATH={self._folder}/bin:$PATH
            export AWS_ACCESS_KEY_ID={objects.ACCESS_KEY} AWS_SECRET_ACCESS_KEY={objects.SECRET_KEY}
            S3_URL={location['config']['s3Url']} BUCKET={location['objectStorage']['bucket']}
            RESTIC_CACHE_DIR={self._folder}/cache; export RESTIC_CACHE_DIR
            {command}
            set | grep -E '^(ID|RESTIC_REPOSITORY|RESTIC_PASSWORD)=' | sed 's/^/export /' > environment"""
        done = self._bed.run(["bash", "-c", script], check=not command.startswith(MAY_FIND_FAULTS))
        self.said[command] = done.stdout
        return done


def helm(bed, command):
    """What Helm does, with the bed's image."""
    words = shlex.split(command)
    assert words[0] == "helm" and words[-2:] == ["--namespace", mover.NAMESPACE]
    if words[1] == "install":
        assert words[2:-2] == [mover.NAMESPACE, "deploy/chart", "--set", f"image.repository={IMAGE}"]
        mover.define(bed)
        mover.install(bed)
    elif words[1] == "upgrade":
        assert words[2:-2] == [mover.NAMESPACE, "deploy/chart"]
        mover.upgrade(bed)
    else:
        assert words[1:-2] == ["uninstall", mover.NAMESPACE]
        mover.uninstall(bed)


def make_kinds_older(bed):
    """Leaves a kind as a chart had it that did not know spec.upload."""
    versions = bed.api.get("customresourcedefinitions", OLD_KIND)["spec"]["versions"]
    del versions[0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["upload"]
    bed.api.patch("customresourcedefinitions", OLD_KIND, {"spec": {"versions": versions}})


def dropped_fields(terminal):
    """What doctor says of kinds that are too old."""
    found = [json.loads(line) for line in terminal.run("csi-delta doctor --json").stdout.splitlines()]
    return [finding["text"] for finding in found if finding.get("check") == "mover-kind-fields" and finding["grade"] == "fault"]


@pytest.mark.cluster(node=True)
def test_every_command_of_the_page(bed, workspace, tmp_path):
    for name in ("shop", "shop-try"):
        workspace.expect_namespace(bed, name)
    workspace.expect_backup(bed, "shop-1")
    bed.create_namespace("shop")
    bed.create_claim("data", "shop", 16 * MIB)
    written = data.fill(bed.volume_path("data", "shop"), 1, 16 * MIB)
    terminal = Terminal(bed, tmp_path)
    for command in commands():
        if command.startswith("csi-delta try shop --clean-up"):
            data.expect(bed.volume_path("data", "shop-try"), written)
        if command.startswith("csi-delta uninstall"):
            bed.wait_for(lambda: not moving.undone(bed), moving.MOVED_SECONDS_MAX, lambda: f"the deletion: {moving.undone(bed)}")
            moving.await_nothing_left(bed, (*moving.TRANSFERS, *moving.DELETIONS))
        if command.startswith("kubectl apply --server-side"):
            assert not dropped_fields(terminal)
            make_kinds_older(bed)
            assert "spec.upload" in "".join(dropped_fields(terminal))
        if command.startswith("helm upgrade"):
            assert not dropped_fields(terminal)
        if command.startswith("helm "):
            helm(bed, command)
        else:
            terminal.run(command)
    said = "\n".join(terminal.said.values())
    plan = terminal.said["csi-delta uninstall"].splitlines()
    assert "no errors were found" in terminal.said["restic check --read-data"], said
    assert "Data Mover: csi-delta" in said
    for thing in (f"data location {bed.namespace}/default", f"Secret {mover.NAMESPACE}/csi-delta-keys-{bed.namespace}.default"):
        assert any(line.startswith(f"stays  {thing}") for line in plan), (thing, plan)
    assert ", 0 failed" in terminal.said["csi-delta uninstall --yes"]
    assert mover.repositories(bed) and not mover.bases(bed)
