"""Which claims a backup takes, and under which names."""

MIB = 1 << 20


def _handles_taken(bed, before):
    return set(bed.driver.snapshots()) - before


def test_selectors_and_resources(bed, workspace):
    app = workspace.namespace(bed)
    bed.create_claim("chosen", app, MIB, labels={"backup": "yes"})
    bed.create_claim("other", app, MIB)
    flags = workspace.by_policy(bed, app)
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
