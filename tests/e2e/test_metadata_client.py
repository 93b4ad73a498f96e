"""csi-delta and upstream's metadata sidecar when something is wrong between them: what is mended is, the rest is said."""

import base64
import concurrent.futures
import dataclasses
import json
import pathlib
import shutil

import pytest

import data
import metadata
import pki
from engine import CHUNK_BYTES, PROGRAM, VOLUME_BYTES, Engine

WRITTEN_CHUNKS = range(2, 120, 2)


@dataclasses.dataclass
class Story:
    """A volume whose snapshot "one" is in a repository, and the device made of its snapshot "two"."""

    app: str
    repository: pathlib.Path
    device: str
    digest: str


@pytest.fixture(scope="module")
def story(beds, shared_workspace, tmp_path_factory):
    bed = beds.get()
    metadata.serve(bed)
    app, _ = shared_workspace.volume(bed, VOLUME_BYTES)
    bed.create_snapshot("one", app, "data")
    repository = tmp_path_factory.mktemp("story") / "repository"
    Engine(bed, repository).backup("one", app)
    for chunk in WRITTEN_CHUNKS:
        data.fill(bed.volume_path("data", app), 2 + chunk, 1000, chunk * CHUNK_BYTES + 5000)
    bed.create_snapshot("two", app, "data")
    bed.create_claim("of-two", app, VOLUME_BYTES, snapshot="two")
    device = bed.volume_path("of-two", app)
    return Story(app, repository, device, data.checksum(device, VOLUME_BYTES))


class Asker:
    """Backs up "two" into a copy of the story's repository, as often as it is asked to."""

    def __init__(self, bed, story, folder):
        self.bed, self.story, self.folder, self.count = bed, story, folder, 0

    def __call__(self, *flags, user=metadata.CLIENT):
        """Exit code, result or None, and standard error."""
        self.count += 1
        repository = self.folder / f"repository-{self.count}"
        shutil.copytree(self.story.repository, repository)
        done = self.bed.run(
            ["/usr/bin/env", f"RESTIC_REPOSITORY={repository}", "RESTIC_PASSWORD=secret", PROGRAM, "backup", "--json",
             "--changed-blocks", "csi-metadata", "--volume-snapshot", f"{self.story.app}/two",
             "--path", f"/{self.story.app}/data", "--kubeconfig", metadata.kubeconfig(self.bed, user),
             *flags, self.story.device], check=False)
        result = json.loads(done.stdout.splitlines()[-1]) if done.returncode in (0, 20) else None
        return done.returncode, result, done.stderr


@pytest.fixture
def ask(bed, story, tmp_path):
    metadata.serve(bed)
    return Asker(bed, story, tmp_path)


def assert_increment(outcome):
    code, result, said = outcome
    assert code == 0, said
    assert (result["mode_done"], result["source"]) == ("incremental", "csi-metadata")
    assert result["read_bytes"] == len(WRITTEN_CHUNKS) * CHUNK_BYTES


def token_for(bed, audience, path):
    """Puts a token of the client's account into a file."""
    path.write_text(bed.api.token(metadata.CLIENT, metadata.NAMESPACE, 600, audiences=[audience]))
    return path


def test_a_token_for_another_audience_opens_nothing(ask, tmp_path):
    mine = token_for(ask.bed, metadata.AUDIENCE, tmp_path / "mine")
    assert_increment(ask("--metadata-token-file", str(mine)))
    others = token_for(ask.bed, "another-client", tmp_path / "others")
    code, _, said = ask("--metadata-token-file", str(others))
    assert code == 1
    assert "token" in said and others.read_text() not in said


def test_a_reader_without_the_right_to_volume_snapshots_is_told(ask):
    stranger = "metadata-client-stranger"
    by_name = [{**rule, "resourceNames": ["two"]} if "volumesnapshots" in rule["resources"] else rule
               for rule in metadata.CLIENT_RULES]
    contents = {"apiGroups": ["snapshot.storage.k8s.io"], "resources": ["volumesnapshotcontents"], "verbs": ["get"]}
    with metadata.account(ask.bed, stranger, [*by_name, contents]):
        code, _, said = ask(user=stranger)
    assert code == 1
    assert "volumesnapshots" in said


def test_a_sidecar_of_another_authority_is_not_trusted(ask, tmp_path):
    pki.make_pki(tmp_path / "other")
    other = base64.b64encode((tmp_path / "other" / "ca.crt").read_bytes()).decode()
    with metadata.told(ask.bed, caCert=other):
        code, result, said = ask()
    assert code == 0, said
    assert (result["mode_done"], result["reason"]) == ("full", "metadata-unavailable")


@pytest.mark.own_driver("it cannot hold a stream")
def test_a_sidecar_that_is_killed_in_mid_stream_is_asked_again(ask):
    bed = ask.bed
    with concurrent.futures.ThreadPoolExecutor(1) as beside:
        with bed.driver.faults({"method": "GetMetadataDelta", "after_messages": 1, "hold": True, "times": 1}):
            backup = beside.submit(ask)
            bed.driver.await_calls("GetMetadataDelta", held=1)
            bed.stop(metadata.SIDECAR, kill=True)
            bed.start(metadata.SIDECAR)
        assert_increment(backup.result())


def test_without_the_object_the_service_is_switched_off(ask):
    bed = ask.bed
    bed.api.delete("snapshotmetadataservices", bed.driver.name)
    try:
        code, result, said = ask()
        refused, _, _ = ask("--on-fallback", "fail")
    finally:
        bed.api.create("snapshotmetadataservices", metadata.service_object(bed))
    assert code == 0, said
    assert (result["mode_done"], result["reason"]) == ("full", "driver-has-no-metadata-service")
    assert refused == 21
    assert_increment(ask())
