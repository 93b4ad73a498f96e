"""How the plugin gets into a Velero server, and what the server says of it."""

import pytest

from images import image

ACTIONS = {
    ("velero.io/csi-pvc", "BackupItemActionV2"),
    ("velero.io/csi-vs", "BackupItemActionV2"),
    ("velero.io/csi-vsc", "BackupItemActionV2"),
    ("velero.io/csi-vsclass", "BackupItemActionV2"),
    ("velero.io/csi-vgs", "BackupItemActionV2"),
    ("velero.io/csi-vgsc", "BackupItemActionV2"),
    ("velero.io/csi-vgsclass", "BackupItemActionV2"),
    ("velero.io/csi-dataupload", "BackupItemActionV2"),
    ("velero.io/unclaimed-volumes", "BackupItemActionV2"),
    ("velero.io/longhorn-volume", "BackupItemActionV2"),
    ("velero.io/longhorn-snapshot", "BackupItemActionV2"),
    ("velero.io/csi-pvc", "RestoreItemActionV2"),
    ("velero.io/csi-pv", "RestoreItemActionV2"),
    ("velero.io/csi-vs", "RestoreItemActionV2"),
    ("velero.io/csi-vsc", "RestoreItemActionV2"),
    ("velero.io/csi-vsclass", "RestoreItemActionV2"),
    ("velero.io/csi-vgs", "RestoreItemActionV2"),
    ("velero.io/csi-vgsc", "RestoreItemActionV2"),
    ("velero.io/csi-vgsclass", "RestoreItemActionV2"),
    ("velero.io/longhorn-guard", "RestoreItemActionV2"),
    ("velero.io/longhorn-restore", "RestoreItemActionV2"),
    ("velero.io/csi-vs", "DeleteItemAction"),
    ("velero.io/csi-vsc", "DeleteItemAction"),
    ("velero.io/csi-vgsc", "DeleteItemAction"),
    ("velero.io/csi-dataupload", "DeleteItemAction"),
    ("velero.io/longhorn-snapshot", "DeleteItemAction"),
    ("velero.io/csi-pvc", "ItemBlockAction"),
}


@pytest.mark.journey
def test_plugin_add(bed):
    name = f"registry.example/csi-delta/{image.PLUGIN}:v{image.project_version()}"
    bed.velero("plugin", "add", name, "--confirm")
    try:
        deployment = bed.api.get("deployments", "velero", bed.namespace)
        container, = (c for c in deployment["spec"]["template"]["spec"]["initContainers"]
                      if c["image"] == name)
        assert "command" not in container and "args" not in container
        # So the image's own entry point runs, and what it writes to is what Velero shares.
        mount, = container["volumeMounts"]
        assert mount == {"mountPath": image.ENTRY_POINT[-1], "name": "plugins"}
    finally:
        bed.velero("plugin", "remove", name)


@pytest.mark.journey
def test_plugin_get(bed):
    listed = {tuple(line.split()) for line in bed.velero("plugin", "get").stdout.splitlines()}
    assert ACTIONS <= listed
