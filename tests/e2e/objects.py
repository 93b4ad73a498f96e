"""The cluster objects that every bed starts with, and builders for those that tests make."""

import base64
import hashlib

BUCKET = "velero"
CLASS_IMMEDIATE = "bed-immediate"
CLASS_WAIT = "bed-wait"
SNAPSHOT_CLASS = "bed-snapshots"
GROUP_CLASS = "bed-groups"
NODE = "n1"
POD_USER, DISK_GROUP = 65532, 6  # The group that udev gives block devices to.
ACCESS_KEY, SECRET_KEY, REGION = "bedaccess", "bedsecret", "us-east-1"
S3_PORT = 7070
NATIVE_LOCATION = "native"
PLUGIN_ACCOUNT = "csi-delta-plugin"


def namespace(name, labels=None):
    return {"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": name, "labels": labels or {}}}


def storage_class(name, driver, binding_mode):
    return {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
            "provisioner": driver, "reclaimPolicy": "Delete", "volumeBindingMode": binding_mode,
            "allowVolumeExpansion": True}


def snapshot_class(name, driver, deletion_policy="Delete", labels=None):
    """A VolumeSnapshotClass; by default with the label that makes Velero choose it."""
    if labels is None:
        labels = {"velero.io/csi-volumesnapshot-class": "true"}
    return {"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotClass",
            "metadata": {"name": name, "labels": labels}, "driver": driver,
            "deletionPolicy": deletion_policy}


def group_class(name, driver, deletion_policy="Delete", parameters=None, annotations=None):
    """A VolumeGroupSnapshotClass; `parameters` name its secrets."""
    return {"apiVersion": "groupsnapshot.storage.k8s.io/v1", "kind": "VolumeGroupSnapshotClass",
            "metadata": {"name": name, "annotations": annotations or {}}, "driver": driver,
            "deletionPolicy": deletion_policy, "parameters": parameters or {}}


def storage_objects(driver):
    """Pairs of (plural, object): what a cluster administrator would have set up for the driver."""
    return [
        ("csidrivers", {
            "apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver",
            # It copies inside CreateVolume.
            "metadata": {"name": driver,
                         "annotations": {"snapshot.csi-delta.io/filled-when-bound": "true"}},
            "spec": {"attachRequired": False, "podInfoOnMount": True,
                     "volumeLifecycleModes": ["Persistent"]}}),
        ("storageclasses", storage_class(CLASS_IMMEDIATE, driver, "Immediate")),
        ("storageclasses", storage_class(CLASS_WAIT, driver, "WaitForFirstConsumer")),
        ("volumesnapshotclasses", snapshot_class(SNAPSHOT_CLASS, driver)),
        # There is no scheduler here: a test selects this node for a WaitForFirstConsumer claim.
        ("nodes", {"apiVersion": "v1", "kind": "Node",
                   "metadata": {"name": NODE, "labels": {"kubernetes.io/hostname": NODE,
                                                         "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}}}),
    ]


def velero_objects(velero_namespace, s3_host):
    """Pairs of (plural, object): credentials, storage location and the plugin's account."""
    credentials = (f"[default]\naws_access_key_id={ACCESS_KEY}\n"
                   f"aws_secret_access_key={SECRET_KEY}\n").encode()
    meta = {"namespace": velero_namespace}
    return [
        ("secrets", {
            "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
            "metadata": {"name": "cloud-credentials", **meta},
            "data": {"cloud": base64.b64encode(credentials).decode()}}),
        ("backupstoragelocations", {
            "apiVersion": "velero.io/v1", "kind": "BackupStorageLocation",
            "metadata": {"name": "default", **meta},
            "spec": {"provider": "aws", "default": True, "objectStorage": {"bucket": BUCKET},
                     "credential": {"name": "cloud-credentials", "key": "cloud"},
                     "config": {"region": REGION, "s3ForcePathStyle": "true",
                                "s3Url": f"http://{s3_host}:{S3_PORT}"}},
            # Velero looks for backups in the bucket when it starts, then once a minute. The first
            # look is skipped unless the location is known to be available by then.
            "status": {"phase": "Available"}}),
        account(PLUGIN_ACCOUNT, velero_namespace),
    ]


def native_location(velero_namespace):
    """A place for native snapshots of volumes, which are not CSI's."""
    return {"apiVersion": "velero.io/v1", "kind": "VolumeSnapshotLocation",
            "metadata": {"name": NATIVE_LOCATION, "namespace": velero_namespace},
            "spec": {"provider": "aws", "config": {"region": REGION},
                     "credential": {"name": "cloud-credentials", "key": "cloud"}}}


def account(name, account_namespace):
    """The pair (plural, object) of a service account."""
    return "serviceaccounts", {"apiVersion": "v1", "kind": "ServiceAccount",
                               "metadata": {"name": name, "namespace": account_namespace}}


def subject(name, account_namespace):
    """A service account, as bindings name it."""
    return {"kind": "ServiceAccount", "name": name, "namespace": account_namespace}


def binding(name, role_kind, role, to, role_namespace="", labels=None):
    """The pair (plural, object) that gives a subject a ClusterRole or a Role, in one namespace or ("") in all."""
    kind = "RoleBinding" if role_namespace else "ClusterRoleBinding"
    return f"{kind.lower()}s", {
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "subjects": [to],
        "metadata": {"name": name, "labels": labels or {}, **({"namespace": role_namespace} if role_namespace else {})},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role_kind, "name": role}}


def claim(name, claim_namespace, size_bytes, *, mode="Block", storage_class_name=CLASS_IMMEDIATE,
          labels=None, annotations=None, snapshot=None, volume=None, access_mode="ReadWriteOnce"):
    """A PersistentVolumeClaim; `mode` is Block or Filesystem. `snapshot` fills it, `volume` is a PersistentVolume for it."""
    spec = {"accessModes": [access_mode], "volumeMode": mode, "storageClassName": storage_class_name,
            "resources": {"requests": {"storage": str(size_bytes)}}}
    if snapshot:
        spec["dataSource"] = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot",
                              "name": snapshot}
    if volume:
        spec["volumeName"] = volume
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": claim_namespace, "labels": labels or {},
                         "annotations": annotations or {}},
            "spec": spec}


def pod(name, pod_namespace, image, command, *, devices=None, folders=None, groups=(DISK_GROUP,)):
    """A Pod as the Pod Security profile `restricted` wants it, which runs a program once.

    `devices` and `folders` are claims, Block and Filesystem, each with its path in the container.
    """
    devices, folders = devices or {}, folders or {}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": pod_namespace},
            "spec": {
                "restartPolicy": "Never", "terminationGracePeriodSeconds": 1,
                "automountServiceAccountToken": False,
                "securityContext": {
                    "runAsNonRoot": True, "runAsUser": POD_USER, "runAsGroup": POD_USER,
                    "fsGroup": POD_USER, "supplementalGroups": list(groups),
                    "seccompProfile": {"type": "RuntimeDefault"}},
                "volumes": [{"name": c, "persistentVolumeClaim": {"claimName": c}}
                            for c in (*devices, *folders)],
                "containers": [{
                    "name": "main", "image": image, "imagePullPolicy": "Never",
                    "command": list(command),
                    "securityContext": {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                                        "capabilities": {"drop": ["ALL"]}},
                    "resources": {"requests": {"cpu": "10m", "memory": "16Mi"},
                                  "limits": {"memory": "64Mi"}},
                    "volumeDevices": [{"name": c, "devicePath": p} for c, p in devices.items()],
                    "volumeMounts": [{"name": c, "mountPath": p} for c, p in folders.items()]}]}}


def volume_snapshot(name, snapshot_namespace, claim_name):
    """A VolumeSnapshot as a person takes it."""
    return {"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot",
            "metadata": {"name": name, "namespace": snapshot_namespace},
            "spec": {"volumeSnapshotClassName": SNAPSHOT_CLASS,
                     "source": {"persistentVolumeClaimName": claim_name}}}


def volume_group_snapshot(name, snapshot_namespace, match_labels):
    """A VolumeGroupSnapshot of the claims with these labels, as a person takes it."""
    return {"apiVersion": "groupsnapshot.storage.k8s.io/v1", "kind": "VolumeGroupSnapshot",
            "metadata": {"name": name, "namespace": snapshot_namespace},
            "spec": {"volumeGroupSnapshotClassName": GROUP_CLASS,
                     "source": {"selector": {"matchLabels": match_labels}}}}


def imported_snapshot(name, snapshot_namespace, driver, handle):
    """Pairs of (plural, object): a VolumeSnapshot, without a class, of a handle that the driver knows."""
    version, content = "snapshot.storage.k8s.io/v1", f"{name}-{snapshot_namespace}"
    return [
        ("volumesnapshotcontents", {
            "apiVersion": version, "kind": "VolumeSnapshotContent", "metadata": {"name": content},
            "spec": {"deletionPolicy": "Retain", "driver": driver,
                     "source": {"snapshotHandle": handle},
                     "volumeSnapshotRef": {"name": name, "namespace": snapshot_namespace}}}),
        ("volumesnapshots", {
            "apiVersion": version, "kind": "VolumeSnapshot",
            "metadata": {"name": name, "namespace": snapshot_namespace},
            "spec": {"source": {"volumeSnapshotContentName": content}}}),
    ]


def left_over_snapshot(claim_name, claim_namespace, velero_namespace, backup):
    """A VolumeSnapshot as our plugin makes it for a backup, which then never got to its end."""
    backup_uid, claim_uid = "0b3c6a1e-uid-of-another-life", "5d2f8b70-claim-of-another-life"
    digest = hashlib.sha256(f"{backup_uid}/{claim_uid}".encode()).hexdigest()[:20]
    return {"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot",
            "metadata": {"name": f"velero-{claim_name}-{digest}", "namespace": claim_namespace,
                         "labels": {"velero.io/backup-name": backup,
                                    "velero.io/backup-uid": backup_uid,
                                    "velero.io/pvc-uid": claim_uid,
                                    "velero.io/csi-delta": velero_namespace}},
            "spec": {"volumeSnapshotClassName": SNAPSHOT_CLASS,
                     "source": {"persistentVolumeClaimName": claim_name}}}
