"""What the plugin's ConfigMap does to a backup: an unknown key, and a value that is wrong."""

import plugin_settings
import policy

MIB = 1 << 20


def _back_up_two_claims(bed, workspace, expect):
    """Returns (Backup, its log)."""
    app = workspace.namespace(bed)
    bed.create_claims(["one", "two"], app, MIB)
    backup = workspace.backup(bed, "--include-namespaces", app, "--resource-policies-configmap",
                              workspace.policy(bed, policy.rule("snapshot")), expect=expect)
    return backup, bed.velero("backup", "logs", backup["metadata"]["name"]).stdout


def test_unknown_key_is_one_warning(bed, workspace):
    with plugin_settings.during(bed, orphanGracePeriods="48h"):
        backup, log = _back_up_two_claims(bed, workspace, "Completed")
    assert backup["status"].get("warnings", 0) == 1
    line, = (line for line in log.splitlines() if "level=warning" in line)
    assert "orphanGracePeriods" in line and "nearest known key is orphanGracePeriod" in line


def test_wrong_value_is_an_error(bed, workspace):
    with plugin_settings.during(bed, orphanGracePeriod="two days"):
        backup, log = _back_up_two_claims(bed, workspace, "PartiallyFailed")
    assert backup["status"]["errors"] == 2
    assert "orphanGracePeriod" in log and "a duration from 1m to 8760h" in log
