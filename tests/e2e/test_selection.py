"""Which claims a backup takes, and under which names."""

import policy

MIB = 1 << 20


def _handles_taken(bed, before):
    return set(bed.driver.snapshots()) - before


def test_selectors_and_resources(bed, workspace):
    app = workspace.namespace(bed)
    bed.create_claim("chosen", app, MIB, labels={"backup": "yes"})
    bed.create_claim("other", app, MIB)
    flags = ["--include-namespaces", app, "--resource-policies-configmap",
             workspace.policy(bed, policy.rule("snapshot"))]

    before = set(bed.driver.snapshots())
    backup = workspace.backup(bed, *flags, "--selector", "backup=yes")
    assert backup["status"].get("warnings", 0) == 0
    taken = _handles_taken(bed, before)
    assert len(taken) == 1
    shown = bed.velero("backup", "describe", backup["metadata"]["name"], "--details").stdout
    assert f"{app}/chosen" in shown and taken.pop() in shown

    before = set(bed.driver.snapshots())
    backup = workspace.backup(bed, *flags, "--include-resources", "persistentvolumeclaims",
                              stem="included")
    assert len(_handles_taken(bed, before)) == 2
    bed.delete_namespace(app)
    bed.restore(workspace.name("restore"), "--from-backup", backup["metadata"]["name"])
    bed.wait_bound("chosen", app)
    bed.wait_bound("other", app)

    before = set(bed.driver.snapshots())
    workspace.backup(bed, *flags, "--exclude-resources", "persistentvolumeclaims", stem="excluded")
    assert not _handles_taken(bed, before)


def test_schedule_runs_twice(bed, workspace):
    app = workspace.namespace(bed)
    bed.create_claim("data", app, MIB)
    before = set(bed.driver.snapshots())
    chosen = workspace.policy(bed, policy.rule("snapshot"))
    schedule = workspace.name("nightly")
    bed.velero("schedule", "create", schedule, "--schedule", "@every 24h", "--include-namespaces",
               app, "--resource-policies-configmap", chosen, "--paused")
    names = []
    for run in (1, 2):
        name = workspace.name(f"run-{run}")
        workspace.expect_backup(bed, name)
        bed.velero("backup", "create", name, "--from-schedule", schedule, "--wait")
        assert bed.api.get("backups", name, bed.namespace)["status"]["phase"] == "Completed"
        names.append(name)
    bed.velero("schedule", "delete", schedule, "--confirm")
    first, second = _handles_taken(bed, before)
    bed.delete_backup(names[0])
    bed.wait_for(lambda: len(_handles_taken(bed, before) & {first, second}) == 1, 60,
                 "the first run's snapshot gone and the second's kept")
    bed.delete_namespace(app)
    bed.restore(workspace.name("restore"), "--from-backup", names[1])
    bed.wait_bound("data", app)


def test_long_backup_name(bed, workspace):
    app = workspace.namespace(bed)
    bed.create_claim("data", app, MIB)
    before = set(bed.driver.snapshots())
    chosen = workspace.policy(bed, policy.rule("snapshot"))
    backup = workspace.backup(bed, "--include-namespaces", app,
                              "--resource-policies-configmap", chosen, stem="b" * 70)
    name = backup["metadata"]["name"]
    assert len(name) > 63 and backup["status"].get("warnings", 0) == 0
    bed.delete_namespace(app)
    bed.restore(workspace.name("restore"), "--from-backup", name)
    bed.wait_bound("data", app)
    bed.delete_backup(name)
    bed.wait_for(lambda: not _handles_taken(bed, before), 60, "end of the backup's snapshot")
