"""Commands of reference pages that need a cluster, with the names of the test bed instead of the page's."""

import json
import pathlib
import re

import commands
import pytest

import components
import data
import metadata
import mover
import moving
import objects
import test_mover_places

ROOT = pathlib.Path(__file__).resolve().parents[2]
MIB = 1 << 20
PAGE_SECONDS_MAX = 600
MAY_FIND_FAULTS = 'csi-delta() { command csi-delta "$@" || [ "$1" = doctor ]; }'  # It finds faults in a test bed.
pytestmark = pytest.mark.moves


class Pages:
    """A folder in which the commands of pages are run, as one shell for each page."""

    def __init__(self, bed, folder):
        self._bed, self._folder = bed, folder
        (folder / "bin").mkdir()
        (folder / "bin" / "csi-delta").symlink_to(components.program_path())
        (folder / "deploy").symlink_to(ROOT / "deploy")

    def run(self, page, pattern, names=None, kubeconfig=None):
        """Runs the commands of a page that match, with these names instead of the page's; returns what they print."""
        text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
        lines = [line for block in commands.blocks_of(page, text) if block.is_run and not block.reason
                 for line in commands.lines_of_text(block.text) if re.search(pattern, line)]
        assert lines, f"{page} has no command with {pattern}"
        script = "\n".join(lines)
        for name, here in (names or {}).items():
            script = script.replace(name, str(here))
        script = f"export KUBECONFIG={kubeconfig}\n{script}" if kubeconfig else script
        return self._bed.run(["bash", "-c", f"set -eu\n{MAY_FIND_FAULTS}\ncd {self._folder}\nexport PATH={self._folder}/bin:$PATH RESTIC_PASSWORD=secret "
                              f"RESTIC_REPOSITORY={self._folder}/repository\n{script}"], timeout_seconds=PAGE_SECONDS_MAX).stdout


@pytest.fixture(name="shop")
def fixture_shop(bed, workspace):
    """A namespace with a written PVC; its name."""
    app = workspace.namespace(bed, "shop")
    bed.create_claim("orders", app, 16 * MIB)
    data.fill(bed.volume_path("orders", app), 1, 8 * MIB)
    return app


@pytest.fixture(name="pages")
def fixture_pages(bed, tmp_path):
    return Pages(bed, tmp_path)


def test_a_device_is_backed_up_by_what_changed_since_its_last_volume_snapshot(bed, shop, pages, tmp_path):
    bed.create_snapshot("orders-monday", shop, "orders")
    data.fill(bed.volume_path("orders", shop), 2, MIB, 4 * MIB)
    bed.create_snapshot("orders-tuesday", shop, "orders")
    bed.run([components.program_path(), "init", "--repo", tmp_path / "repository", "--password-command", "echo secret"])
    names = {"/dev/orders": bed.volume_path("orders", shop), "shop/": f"{shop}/"}
    account = metadata.kubeconfig(bed, metadata.CLIENT)
    assert "incremental" in pages.run("changed-blocks", "--volume-snapshot", names, account)
    pages.run("cli", "--volume-snapshot", names, account)


def test_the_plugin_is_installed_and_a_policy_chooses_volumes(bed, shop, pages, workspace):
    backup, policies = workspace.name("nightly"), ("csi-delta-policy", "volume-policies")
    names = {" shop ": f" {shop} ", " app ": f" {shop} ", "nightly": backup, "YOUR-CLASS": objects.SNAPSHOT_CLASS}
    for name in (backup, f"{backup}-2", f"{backup}-3"):
        workspace.expect_backup(bed, name)
    before = bed.api.get("deployments", "velero", bed.namespace)["spec"]["template"]["spec"]["containers"]
    try:
        assert "velero.io/csi-pvc" in pages.run("install", "^(velero|kubectl (-n velero patch|label volumesnapshotclass|apply -f deploy/volume)) ?", names)
        text = (ROOT / "docs" / "volume-policies.md").read_text(encoding="utf-8")
        bed.kubectl("apply", "-f", "-", stdin=re.search(r"```yaml\n(apiVersion: v1\nkind: ConfigMap\n.*?)```", text, re.DOTALL)[1])
        pages.run("volume-policies", "^velero backup create", {**names, "nightly": f"{backup}-2 --wait"})
        pages.run("longhorn", "^velero backup create nightly", {"nightly": f"{backup}-3 --wait"})
        pages.run("longhorn", "^kubectl delete .*RESTORE$", {" shop ": f" {shop} "})
    finally:
        for name in policies:
            bed.kubectl("delete", "configmap", name, "--namespace", bed.namespace, "--ignore-not-found")
        bed.api.patch("deployments", "velero", {"spec": {"template": {"spec": {"containers": before}}}}, bed.namespace)
        bed.velero("plugin", "remove", "registry.example/velero-plugin-for-csi-delta:0.1.0", check=False)


@pytest.fixture(name="location")
def fixture_location(bed, workspace, shop):
    """A BackupStorageLocation with a bucket and keys of its own."""
    del shop  # Its end comes after this one's.
    yield from test_mover_places.make_place(bed, workspace)


def _old_key(bed, repository, keys):
    """The id of the repository's key that none of these is."""
    done = bed.run([components.program_path(), "key", "list", "--json", "--repo", repository, "--keyring-file", keys])
    old, = [key["id"] for key in json.loads(done.stdout) if not key["current"]]
    return old


def test_the_keys_of_a_location_are_exported_changed_and_thrown_away(bed, shop, pages, location, workspace, tmp_path):
    unused = workspace.name("unused")
    names = {"--location default": f"--location {location.name}", "velero.default": f"velero.{unused}", " --context second": "",
             " --context third": ""}

    def run(pattern, **others):
        return pages.run("data-mover-keys", pattern, {**names, **others})

    def back_up(name):
        parts = moving.back_up(bed, workspace, shop, name, "--storage-location", location.name, *moving.MOVE)[1]["status"]["snapshotID"].split("/")
        return location.server.folder.joinpath("plugins", "csi-delta", *parts[2:5])
    repository = back_up("first")
    run("mover-key export .*(default.keys|--confirm)$")
    run("fleet")
    run("create secret generic")
    bed.api.delete("secrets", f"csi-delta-keys-velero.{unused}", mover.NAMESPACE)
    example = re.search(r"--repo (s3:\S+)", (ROOT / "docs" / "data-mover-keys.md").read_text(encoding="utf-8"))[1]
    assert "/orders" in run("--repo s3:", **{example: repository})
    run(r"^password=|^echo .*default-2\.keys|import .*--newest")
    assert back_up("second") == repository
    fingerprint = (tmp_path / "csi-delta-default.keys").read_text().split()[0]
    run("csi-delta key |mover-key remove", **{"$REPOSITORY": repository, "$OLD_FINGERPRINT": fingerprint,
                                              "$OLD_ID": _old_key(bed, repository, tmp_path / "csi-delta-default-2.keys")})
    run("import --location default csi-delta-default.keys")
    run(r"^password=|^echo .*default-new|import .*default-new\.keys")


def test_the_page_shows_the_state_of_the_data_mover(bed, shop, pages, workspace):
    moving.back_up(bed, workspace, shop, "shown")
    assert shop in pages.run("data-mover-status", "get protectedvolumes|csi-delta status")
    pages.run("report", "^csi-delta report --cluster")
    assert '"grade":"fault"' in pages.run("doctor", "csi-delta doctor", {"fast": objects.CLASS_IMMEDIATE})
