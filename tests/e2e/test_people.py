"""Snapshots for people: the stories of the original proposal, on the real snapshot controller and driver."""

import json
import pathlib
import subprocess

import pytest
import yaml

import cluster_api
import components
import data
import objects
import people
import rights
import stamps

MIB = 1 << 20


@pytest.mark.journey
@pytest.mark.own_driver("needs a snapshot that becomes ready late")
def test_alice_locks_takes_unlocks_copies_and_deletes(bed, workspace):
    """She holds the lock of her database for as long as it takes to take the snapshot, and no longer."""
    app = workspace.namespace(bed)
    bed.create_claim("claim-mysql", app, MIB)
    with people.Ledger(bed.volume_path("claim-mysql", app)) as ledger:
        with bed.driver.faults({"method": "*", "lie": "not_ready"}):  # It is uploading for long.
            with ledger.locked() as locked_ms:
                taken, = people.ask(bed, app, "create", "claim-mysql", "--name", "mysql-snapshot")
                number = ledger.number
            print(f"locked for {locked_ms():.0f} ms, {taken['asked_to_taken_ms']} of them until it was taken")
            assert (taken["state"], taken["name"]) == ("Uploading", "mysql-snapshot")
            assert taken["handle"] in bed.driver.snapshots()
            early = people.run(bed, app, "promote", "mysql-snapshot", "early", check=False)
            assert early.returncode == 1 and "mysql-snapshot" in early.stderr, early.stderr
            assert not bed.api.get("persistentvolumeclaims", "early", app)
        bed.wait_snapshot_ready("mysql-snapshot", app)
        bed.wait_for(lambda: ledger.number > number + 1, 30, "the application going on")

    people.run(bed, app, "promote", "mysql-snapshot", "snapshot-data-claim", "--wait")
    assert people.numbers(bed.volume_path("snapshot-data-claim", app)) == [number, number]
    shown = people.ask(bed, app, "list")
    assert [(one["name"], one["state"], one["used_by"]) for one in shown] == [
        ("mysql-snapshot", "Ready", ["snapshot-data-claim"])]

    bed.delete_claim("snapshot-data-claim", app)
    refused = people.run(bed, app, "delete", "mysql-snapshot", check=False)
    assert refused.returncode == 23 and "--last-too" in refused.stdout, refused
    people.run(bed, app, "delete", "mysql-snapshot", "--last-too", "--wait")
    assert taken["handle"] not in bed.driver.snapshots()
    assert not bed.api.list("leases", app)


def test_a_frozen_file_system_is_clean_in_the_snapshot_and_another_is_not(bed, workspace):
    """The recipe of docs/snapshots.md."""
    app = workspace.namespace(bed)
    bed.create_claim("files", app, 16 * MIB, mode="Filesystem")
    with people.mounted(bed.volume_path("files", app)) as folder:
        (folder / "table").write_text("one row\n" * 1000)
        people.run(bed, app, "create", "files", "--name", "as-it-is")
        people.run(bed, app, "create", "files", "--name", "frozen", "--hold", people.freeze(folder))
        (folder / "more").write_text("it goes on")
        refused = people.run(bed, app, "create", "files", "--name", "none", "--hold", people.freeze(folder / "missing"), check=False)
        assert refused.returncode == 1 and not bed.api.get("volumesnapshots", "none", app), refused
    paths = {name: bed.driver.snapshot_path(people.ask(bed, app, "show", name)["handle"]) for name in ("as-it-is", "frozen")}
    assert people.needs_recovery(paths["as-it-is"]), "what was written is still in the journal alone"
    assert not people.needs_recovery(paths["frozen"])
    checked = bed.run(["/usr/sbin/e2fsck", "-n", "-f", paths["frozen"]])
    assert "table" in bed.run(["/usr/sbin/debugfs", "-R", "ls -p /", paths["frozen"]]).stdout, checked.stdout
    people.run(bed, app, "delete", "as-it-is", "frozen", "--last-too", "--wait")


@pytest.mark.journey
@pytest.mark.group
def test_a_stateful_set_is_taken_at_one_instant_and_promoted_as_a_set(bed, workspace):
    app = workspace.namespace(bed)
    pvcs = [f"data-db-{ordinal}" for ordinal in range(3)]
    bed.create_claims(pvcs, app, MIB)
    bed.api.create("statefulsets", people.stateful_set("db", app, "data"))
    with stamps.Writer(bed, [bed.volume_path(pvc, app) for pvc in pvcs]):
        taken = people.ask(bed, app, "create", "--statefulset", "db", "--name", "week", "--group", "always")
    assert [one["pvc"] for one in taken] == pvcs
    assert {one["set"] for one in taken} == {"week"} and {one["workload"] for one in taken} == {"StatefulSet/db"}
    assert len({one["taken_at"] for one in taken}) == 1, taken
    assert not [pvc for pvc in bed.api.list("persistentvolumeclaims", app) if pvc["metadata"].get("labels")]

    for one in taken:
        bed.wait_snapshot_ready(one["name"], app)
    people.run(bed, app, "promote", "--set", "week", "--replica-of", "copy", "--wait")
    copies = [bed.volume_path(f"data-copy-{ordinal}", app) for ordinal in range(3)]
    assert stamps.spread(copies) <= 1
    people.run(bed, app, "delete", "--set", "week", "--last-too", "--wait")
    for ordinal in range(3):
        bed.delete_claim(f"data-copy-{ordinal}", app)
    bed.wait_snapshots_gone(app)


@pytest.mark.journey
def test_another_namespace_needs_rights_on_both_ends(bed, workspace):
    shop, written = workspace.volume(bed, MIB, stem="shop")
    team = workspace.namespace(bed, "team")
    people.run(bed, shop, "create", "data", "--name", "monday", "--wait", "ready")
    _a_full_quota_is_named_and_nothing_goes(bed, shop)
    with people.roles(bed):
        words = ("promote", "monday", "copy", "--from-namespace", shop)
        here = [(team, "csi-delta-snapshot-user"), (team, "csi-delta-snapshot-viewer"), ("", "csi-delta-snapshot-reader")]
        neither = people.Person(bed, workspace.name("neither"), team, here)
        refused = neither.run(team, *words, check=False)
        assert refused.returncode == 1 and "may not get volumesnapshots" in refused.stderr, refused.stderr
        both = people.Person(bed, workspace.name("both"), shop, [*here, (shop, "csi-delta-snapshot-viewer")])
        refused = both.run(team, *words, check=False)
        assert refused.returncode == 1 and "ask for the ClusterRole csi-delta-snapshot-admin" in refused.stderr, refused.stderr
        assert not bed.api.list("persistentvolumeclaims", team)
        assert not bed.api.list("volumesnapshots", team)

    people.run(bed, team, *words, "--wait")
    data.expect(bed.volume_path("copy", team), written)
    bed.wait_snapshots_gone(team)  # The pair that lent the snapshot.
    shown, = people.ask(bed, shop, "list")
    assert shown["state"] == "Ready"
    people.run(bed, shop, "delete", "monday", "--last-too", "--wait")


QUOTA = "count/volumesnapshots.snapshot.storage.k8s.io"


def _a_full_quota_is_named_and_nothing_goes(bed, shop):
    """The words of the API server's own admission; the use is written here, where no controller counts it."""
    bed.kubectl("create", "quota", "snaps", f"--hard={QUOTA}=1", "-n", shop)
    full = json.dumps({"status": {"hard": {QUOTA: "1"}, "used": {QUOTA: "1"}}})
    bed.kubectl("patch", "resourcequota", "snaps", "-n", shop, "--subresource=status", "--type=merge", "-p", full)

    def is_refused():
        try:
            bed.api.request("POST", cluster_api.path("volumesnapshots", namespace=shop, dryRun="All"),
                            objects.volume_snapshot("probe", shop, "data"))
        except cluster_api.ApiError as error:
            return error.code == 403
        return False
    bed.wait_for(is_refused, 30, "the API server knowing the quota")
    for more in ((), ("--make-room",), ("--make-room", "--keep-last", "1")):
        refused = people.run(bed, shop, "create", "data", "--name", "more", *more, check=False)
        assert refused.returncode == 1 and "quota snaps: 1 of 1 used" in refused.stderr, refused
        assert ("last snapshot" if "--keep-last" in more else "younger than 5 minutes") in refused.stderr, refused
    assert [one["metadata"]["name"] for one in bed.api.list("volumesnapshots", shop)] == ["monday"]
    bed.kubectl("delete", "quota", "snaps", "-n", shop)


@pytest.mark.journey
def test_an_in_place_restore_is_killed_after_each_write(bed, workspace):
    """Restore, undo and finish: each run makes one write and is killed, and the next one goes on."""
    app = workspace.namespace(bed)
    bed.create_claim("data", app, MIB, labels={"app": "db"}, annotations={"team": "one"})
    before = data.fill(bed.volume_path("data", app), 1, MIB)
    people.run(bed, app, "create", "data", "--name", "monday", "--wait", "ready")
    now = data.fill(bed.volume_path("data", app), 2, MIB)
    uid, volumes = bed.api.get("persistentvolumeclaims", "data", app)["metadata"]["uid"], set(bed.driver.volumes())
    with people.roles(bed):
        roles = [(app, "csi-delta-snapshot-viewer"), (app, "csi-delta-snapshot-user"), ("", "csi-delta-snapshot-reader"),
                 ("", "csi-delta-snapshot-admin")]
        admin = people.Person(bed, workspace.name("admin"), app, roles)
        kills, said = people.killed_after_each_write(admin, app, "restore", "monday", "--into", "data", "--yes")
        print(f"a restore, killed after each of {kills} writes:\n{said}")
        assert kills >= 8 and "--undo" in said
        data.expect(bed.volume_path("data", app), before)
        pvc, = bed.api.list("persistentvolumeclaims", app)
        assert pvc["metadata"]["uid"] != uid and pvc["metadata"]["labels"] == {"app": "db"}
        assert pvc["metadata"]["annotations"]["team"] == "one"
        assert len(set(bed.driver.volumes()) - volumes) == 1 and volumes <= set(bed.driver.volumes())
        assert "is kept" in admin.run(app, "list").stderr

        kills, said = people.killed_after_each_write(admin, app, "restore", "--into", "data", "--undo", "--yes")
        assert kills >= 5 and "again" in said
        data.expect(bed.volume_path("data", app), now)
        kills, said = people.killed_after_each_write(admin, app, "restore", "--into", "data", "--finish", "--yes")
        assert kills >= 2 and "finished" in said
        data.expect(bed.volume_path("data", app), now)
        assert set(bed.driver.volumes()) == volumes
        volume = bed.api.get("persistentvolumes", bed.api.get("persistentvolumeclaims", "data", app)["spec"]["volumeName"])
        assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete"
        assert not [key for key in volume["metadata"]["annotations"] if "csi-delta" in key]
    for snapshot in bed.api.list("volumesnapshots", app):
        people.run(bed, app, "delete", snapshot["metadata"]["name"], "--last-too", "--wait")


def _as_viewer(viewer, app):
    viewer.run(app, "list")
    viewer.run(app, "list", "--pod", "db-0")
    viewer.run(app, "list", "--statefulset", "db")
    viewer.run(app, "show", "monday")
    refused = viewer.run(app, "create", "data-db-0", check=False)
    assert refused.returncode == 1 and "forbidden" in refused.stderr, refused.stderr


def _as_user(bed, user, app):
    """All that needs no right beyond the namespace, and without those what belongs to it in the cluster is not checked."""
    of_class = ("--class", objects.SNAPSHOT_CLASS)
    noted = user.run(app, "create", "data-db-0", "--name", "sunday", "--wait-lease", *of_class).stderr
    assert "class not checked" in noted and "binding not checked" in noted, noted
    lacking = user.run(app, "create", "--pod", "db-0", check=False)
    assert lacking.returncode == 1 and "--class" in lacking.stderr, lacking.stderr
    user.run(app, "create", "--pod", "db-0", "--name", "pod", *of_class)
    bed.wait_snapshot_ready("sunday", app)
    user.run(app, "promote", "sunday", "copy")
    bed.wait_bound("copy", app)
    kept = user.run(app, "delete", "sunday", check=False)  # Whether the driver copies before it binds stands on its CSIDriver.
    assert kept.returncode == 23 and f"PVC {app}/copy" in kept.stdout, kept
    bed.delete_claim("copy", app, with_volume=False)
    user.run(app, "delete", "sunday")
    refused = user.run(app, "prune", "--keep-last", "1", "--yes", check=False)
    assert refused.returncode == 1, refused
    # While another holds the Lease.
    pvc = bed.api.get("persistentvolumeclaims", "data-db-0", app)
    lease = f"csi-delta-{pvc['metadata']['uid']}"
    bed.api.create("leases", {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": lease, "namespace": app},
                              "spec": {"holderIdentity": "another", "renewTime": "2020-01-01T00:00:00.000000Z"}})
    user.run(app, "create", "data-db-0", "--name", "over-a-dead-lease", *of_class)
    bed.api.create("leases", {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": lease, "namespace": app},
                              "spec": {"holderIdentity": "another", "renewTime": "2120-01-01T00:00:00.000000Z"}})
    busy = user.run(app, "create", "data-db-0", *of_class, check=False)
    assert busy.returncode == 11 and "--wait-lease" in busy.stderr, busy.stderr
    user.run(app, "create", "data-db-0", "--name", "after-it-ran-out", "--wait-lease", *of_class)


def _as_user_who_reads_the_cluster(bed, reader, app):
    with bed.driver.faults({"method": "CreateVolumeGroupSnapshot", "code": "INVALID_ARGUMENT"}):
        refused = reader.run(app, "create", "--statefulset", "db", "--name", "none", "--group", "always", check=False)
        assert refused.returncode == 1 and "VolumeGroupSnapshot none was deleted again" in refused.stderr, refused.stderr
    reader.run(app, "create", "--statefulset", "db", "--name", "week", "--group", "always")
    reader.run(app, "create", "data-db-0", "--name", "monday", "--wait", "ready")
    reader.run(app, "delete", "over-a-dead-lease", "--wait")
    reader.run(app, "prune", "--keep-last", "1", "--yes")


def _as_admin(bed, admin, app, team):
    handle = people.ask(bed, app, "show", "monday")["handle"]
    with bed.driver.faults({"method": "CreateVolume", "code": "INVALID_ARGUMENT"}):
        refused = admin.run(team, "promote", "monday", "none", "--from-namespace", app, check=False)
        assert refused.returncode == 1 and not bed.api.get("persistentvolumeclaims", "none", team), refused.stderr
    admin.run(team, "promote", "monday", "copy", "--from-namespace", app)
    bed.api.patch("volumesnapshotcontents", people.ask(bed, app, "show", "monday")["content"],
                  {"spec": {"deletionPolicy": "Retain"}})
    admin.run(app, "delete", "monday", "--last-too", "--wait")
    assert handle in bed.driver.snapshots(), "the storage keeps it"
    admin.run(app, "import", handle, "--driver", bed.driver.name, "--name", "back", "--wait")
    admin.run(app, "delete", "back", "--last-too", "--with-data", "--wait")
    assert handle not in bed.driver.snapshots()


def _unprovisioned(bed, name, app):
    """A PVC whose PersistentVolume no provisioner made; returns that, as it was created."""
    bed.create_claim("seed", app, MIB)
    made = bed.release_volume("seed", app)
    volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": f"static-{app}"}, "spec": {
        **{key: made["spec"][key] for key in ("accessModes", "capacity", "csi", "storageClassName", "volumeMode")},
        "claimRef": {"namespace": app, "name": name}, "persistentVolumeReclaimPolicy": "Retain"}}
    bed.api.create("persistentvolumes", volume)
    bed.create_claim(name, app, MIB, volume=volume["metadata"]["name"])
    return volume


def _restores(bed, admin, app):
    """In place; of a volume that no provisioner made the object alone is deleted."""
    kept = _unprovisioned(bed, "restored", app)
    old = kept["metadata"]["name"]
    people.run(bed, app, "create", "restored", "--name", "tuesday", "--wait", "ready")
    admin.run(app, "restore", "tuesday", "--into", "restored", "--yes")
    with bed.paused("csi-provisioner"):  # It would delete this one, too.
        done = admin.run(app, "restore", "--into", "restored", "--finish", "--yes", check=False)
    assert done.returncode == 3 and kept["spec"]["csi"]["volumeHandle"] in done.stdout, done
    assert not bed.api.get("persistentvolumes", old)
    bed.api.create("persistentvolumes", {  # So that its provisioner deletes the volume.
        **kept, "metadata": {"name": old, "annotations": {"pv.kubernetes.io/provisioned-by": bed.driver.name}},
        "spec": {**kept["spec"], "persistentVolumeReclaimPolicy": "Delete",
                 "claimRef": {**kept["spec"]["claimRef"], "uid": "gone"}}})
    bed.wait_for(lambda: not bed.api.get("persistentvolumes", old), 60, f"end of the volume {old}")
    admin.run(app, "restore", "tuesday", "--into", "restored", "--yes")
    admin.run(app, "restore", "--into", "restored", "--finish", "--yes")
    # A class that waits for a Pod, and no node that has the driver: the nodes are looked at.
    bed.create_claim("late", app, MIB, storage_class_name=objects.CLASS_WAIT)
    people.run(bed, app, "create", "late", "--name", "wednesday", "--wait", "ready")
    admin.run(app, "restore", "wednesday", "--into", "late", "--dry-run", check=False)
    people.run(bed, app, "delete", "tuesday", "wednesday", "--last-too", "--wait")


def _asks_the_mover(bed, admin, app):
    """What a data mover moved comes back into a PVC. No data mover runs here: its part is played."""
    bed.create_claim("moved", app, MIB)
    uid = bed.api.get("persistentvolumeclaims", "moved", app)["metadata"]["uid"]
    reference = "/".join(("csi-delta/1", uid, app, uid, "a" * 64, "0" * 16))
    bed.api.create("datauploads", {
        "apiVersion": "velero.io/v2alpha1", "kind": "DataUpload", "metadata": {"name": f"moved-{app}", "namespace": bed.namespace},
        "spec": {"snapshotType": "CSI", "datamover": "csi-delta", "backupStorageLocation": "default", "sourceNamespace": app,
                 "sourcePVC": "moved", "operationTimeout": "10m0s",
                 "csiSnapshot": {"volumeSnapshot": "none", "storageClass": objects.CLASS_IMMEDIATE}},
        "status": {"phase": "Completed", "snapshotID": reference}})

    def asked():
        return [download for download in bed.api.list("datadownloads", bed.namespace)
                if download["metadata"].get("annotations", {}).get("mover.csi-delta.io/into") == uid]

    command = [components.program_path(), "restore", "--upload", f"moved-{app}", "--into", f"{app}/moved",
               "--velero-namespace", bed.namespace, "--safety", "no", "--yes", "--kubeconfig", admin.config]
    with subprocess.Popen(bed.inside(command), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        bed.wait_for(asked, 60, "a DataDownload that asks for it")
        bed.api.patch("datadownloads", asked()[0]["metadata"]["name"], {
            "metadata": {"annotations": {"mover.csi-delta.io/restored-bytes": json.dumps({"written_bytes": 4096})}},
            "status": {"phase": "Completed"}}, bed.namespace)
        out, error = process.communicate(timeout=60)
    assert process.returncode == 0 and "4.0 KiB written" in out, out + error
    assert not asked()
    bed.api.delete("datauploads", f"moved-{app}", bed.namespace)


def test_each_role_is_enough_and_nothing_in_it_is_unused(bed, workspace):
    app, team = workspace.namespace(bed, "shop"), workspace.namespace(bed, "team")
    bed.create_claims([f"data-db-{ordinal}" for ordinal in range(2)], app, MIB)
    bed.api.create("statefulsets", people.stateful_set("db", app, "data"))
    bed.api.create("pods", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "db-0", "namespace": app}, "spec": {
        "containers": [{"name": "main", "image": "none"}],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}}]}})
    people.run(bed, app, "create", "data-db-1", "--name", "monday", "--wait", "ready")
    viewer, user = "csi-delta-snapshot-viewer", "csi-delta-snapshot-user"
    reader, admin = ("", "csi-delta-snapshot-reader"), ("", "csi-delta-snapshot-admin")
    namespaced = [(space, role) for space in (app, team) for role in (viewer, user)]
    start = bed.audit_position()
    with people.roles(bed):
        who = {"viewer": [(app, viewer)], "user": [(app, viewer), (app, user)], "reader": [*namespaced, reader],
               "admin": [*namespaced, reader, admin]}
        persons = {name: people.Person(bed, workspace.name(name), app, bindings) for name, bindings in who.items()}
        _as_viewer(persons["viewer"], app)
        people.run(bed, app, "delete", "monday", "--last-too", "--wait")
        _as_user(bed, persons["user"], app)
        _as_user_who_reads_the_cluster(bed, persons["reader"], app)
        _as_admin(bed, persons["admin"], app, team)
        _restores(bed, persons["admin"], app)
        _asks_the_mover(bed, persons["admin"], app)
    requests = {name: rights.requests_of(bed.audit_events(person.user, start)) for name, person in persons.items()}
    refused = {str(request.right) for name in ("reader", "admin") for request in requests[name] if not request.is_granted}
    assert not refused, refused
    unused = rights.listed(people.ROLES) - {request.right for of in requests.values() for request in of if request.is_granted}
    assert not unused, f"listed in deploy/snapshot-roles.yaml and never used: {sorted(map(str, unused))}"


def test_the_manifests_of_schedule_can_be_applied_and_take_and_prune(bed, workspace, tmp_path):
    app = workspace.namespace(bed)
    bed.create_claim("data", app, MIB)
    manifest = tmp_path / "nightly.yaml"
    manifest.write_text(people.run(bed, app, "schedule", "nightly", "--all", "--cron", "0 3 * * *", "--keep-last", "1",
                                   "--image", "none").stdout)
    documents = [document for document in yaml.safe_load_all(manifest.read_text()) if document]
    account, = (one["metadata"]["name"] for one in documents if one["kind"] == "ServiceAccount")
    job, = (one for one in documents if one["kind"] == "CronJob")
    pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    with people.roles(bed):
        bed.kubectl("apply", "-f", manifest)
        try:
            config = people.config_of(bed, account, app)
            for container in (*pod["initContainers"], *pod["containers"]):  # As a kubelet runs them.
                words = [word.replace("$$", "$") for word in container["args"]]
                told = bed.run([components.program_path(), *words, "--kubeconfig", config])
                assert "not checked" not in told.stderr, told.stderr
        finally:
            bed.kubectl("delete", "-f", manifest)
    made, = bed.api.list("volumesnapshots", app)
    assert made["metadata"]["labels"]["snapshot.csi-delta.io/schedule"] == "nightly"
    people.run(bed, app, "delete", made["metadata"]["name"], "--last-too", "--wait")


PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "snapshots.md"


def commands():
    """The indented lines of the page that are commands, in order; others are printed. A backslash joins lines."""
    lines = [line[4:] for line in PAGE.read_text().replace("\\\n", "").splitlines() if line.startswith("    ")]
    return [line for line in lines if line.startswith(("csi-delta ", "kubectl ")) or "=$(" in line]


@pytest.mark.journey
def test_every_command_of_the_page(bed, workspace, tmp_path):
    for name in ("shop", "team"):
        workspace.expect_namespace(bed, name)
        bed.create_namespace(name)
    bed.create_claim("claim-mysql", "shop", MIB)
    written = data.fill(bed.volume_path("claim-mysql", "shop"), 1, MIB)
    bed.create_claims(["data-db-0", "data-db-1"], "shop", MIB)
    bed.api.create("statefulsets", people.stateful_set("db", "shop", "data"))
    bed.create_claim("files", "shop", 16 * MIB, mode="Filesystem")
    (tmp_path / "csi-delta").symlink_to(components.program_path())
    (tmp_path / "deploy").symlink_to(PAGE.parents[1] / "deploy")
    said = {}
    with people.mounted(bed.volume_path("files", "shop")) as files:
        for command in commands():
            if command.startswith("kubectl delete pvc snapshot-data-claim"):
                data.expect(bed.volume_path("snapshot-data-claim", "shop"), written)
            for snapshot in bed.api.list("volumesnapshots", "shop"):
                bed.wait_snapshot_ready(snapshot["metadata"]["name"], "shop")
            script = (f"set -eu; cd {tmp_path}; export PATH={tmp_path}:$PATH; touch set; . ./set; "
                      f"{command.replace('/mnt/files', str(files))}; declare -p HANDLE CONTENT DRIVER CLASS > set || true")
            said[command] = bed.run(["bash", "-c", script]).stdout
    bed.kubectl("delete", "-f", people.ROLES)
    assert "the application may go on" in said[commands()[0]], said
    data.expect(bed.volume_path("copy", "team"), written)
    bed.wait_snapshots_gone("shop")
    assert not bed.driver.snapshots()
