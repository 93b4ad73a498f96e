#pragma once

// Objects as Velero 1.19 writes them, by its source (main of August 2026, v1.19.0-rc.2): what
// createDataUpload(), newDataDownload(), the action on DataUploads and `velero backup create` make.
namespace csidelta::support {

inline constexpr char kBackupOf119[] = R"({
  "apiVersion": "velero.io/v1", "kind": "Backup",
  "metadata": {"name": "nightly", "namespace": "velero", "uid": "backup-uid",
    "annotations": {"velero.io/resource-timeout": "10m0s",
                    "velero.io/source-cluster-k8s-gitversion": "v1.37.0"}},
  "spec": {"backupType": "Full", "snapshotMoveData": true, "datamover": "csi-delta",
    "storageLocation": "default", "csiSnapshotTimeout": "10m0s", "itemOperationTimeout": "4h0m0s",
    "resourcePolicy": {"kind": "configmap", "name": "policies"}, "includedNamespaces": ["shop"],
    "uploaderConfig": {"parallelFilesUpload": 4}, "hooks": {}, "metadata": {}, "ttl": "720h0m0s",
    "defaultVolumesToFsBackup": false},
  "status": {"phase": "InProgress", "formatVersion": "1.1.0"}})";

inline constexpr char kDataUploadOf119[] = R"({
  "apiVersion": "velero.io/v2alpha1", "kind": "DataUpload",
  "metadata": {"name": "nightly-x7k2p", "generateName": "nightly-", "namespace": "velero",
    "uid": "upload-uid",
    "labels": {"velero.io/backup-name": "nightly", "velero.io/backup-uid": "backup-uid",
      "velero.io/pvc-uid": "claim-uid", "velero.io/async-operation-id": "du-backup-uid.claim-uid"},
    "ownerReferences": [{"apiVersion": "velero.io/v1", "kind": "Backup", "name": "nightly",
      "uid": "backup-uid", "controller": true}]},
  "spec": {"snapshotType": "CSI", "sourcePVC": "data", "datamover": "csi-delta",
    "backupStorageLocation": "default", "sourceNamespace": "shop", "operationTimeout": "10m0s",
    "sourceFSType": "xfs", "parentSnapshot": "none",
    "csiSnapshot": {"volumeSnapshot": "velero-data-1", "storageClass": "fast",
      "snapshotClass": "snaps", "driver": "d.example.com"}},
  "status": {"phase": "", "progress": {}}})";

inline constexpr char kUploadResultOf119[] = R"({
  "backupStorageLocation": "default", "datamover": "csi-delta", "snapshotID": "csi-delta/1/x",
  "sourceNamespace": "shop", "dataMoverResult": null, "nodeOS": "linux", "snapshotSize": 64,
  "fsType": "xfs", "snapshotClass": "snaps"})";

// Of a restore in place, which names the PersistentVolume.
inline constexpr char kDataDownloadOf119[] = R"({
  "apiVersion": "velero.io/v2alpha1", "kind": "DataDownload",
  "metadata": {"name": "r1-x7k2p", "generateName": "r1-", "namespace": "velero",
    "uid": "download-uid",
    "labels": {"velero.io/restore-name": "r1", "velero.io/restore-uid": "restore-uid",
      "velero.io/async-operation-id": "dd-restore-uid.claim-uid"}},
  "spec": {"targetVolume": {"pvc": "data", "pv": "pvc-123", "namespace": "shop", "fsType": "xfs"},
    "backupStorageLocation": "default", "datamover": "csi-delta", "snapshotID": "csi-delta/1/x",
    "sourceNamespace": "shop", "operationTimeout": "10m0s", "nodeOS": "linux",
    "snapshotSize": 64},
  "status": {"phase": "", "progress": {}}})";

// With each section and condition of 1.18.3 and 1.19.
inline constexpr char kPolicyOf119[] = R"(version: v1
includeExcludePolicy:
  includedNamespaceScopedResources: [configmaps]
  excludedClusterScopedResources: [storageclasses]
clusterScopedFilterPolicy:
  resourceFilters:
  - kinds: [clusterroles]
    names: ["app-*"]
namespacedFilterPolicies:
- namespaces: ["shop-*"]
  resourceFilters:
  - kinds: ["*"]
    labelSelector: {matchLabels: {app: db}, matchExpressions: [{key: t, operator: In, values: [a]}]}
    orLabelSelectors: []
    excludedNames: [tmp]
volumePolicies:
- conditions: {volumeTypes: [image]}
  action: {type: skip}
- conditions: {pvcVolumeMode: Block, pvcAccessModes: [ReadWriteOnce, ReadOnlyMany], pvcPhase: [Bound]}
  action: {type: snapshot, parameters: {dataMover: velero-block, snapshotClass: snaps}}
- conditions: {csi: {}}
  action: {type: custom, parameters: {csi-delta: move}}
)";

}  // namespace csidelta::support
