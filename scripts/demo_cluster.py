#!/usr/bin/python3
"""./dev demo --cluster: a backup, a lost namespace and a restore, on a cluster of plain processes.

Prints what a person would type and what the programs answer. Exits 1 if a byte is not what it was.
"""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

import bed as bed_module  # noqa: E402  pylint: disable=wrong-import-position
import data  # noqa: E402  pylint: disable=wrong-import-position
import objects  # noqa: E402  pylint: disable=wrong-import-position

MIB = 1 << 20
NAMESPACE, BACKUP, POLICY = "shop", "before-the-disaster", "csi-delta-policy"
VOLUMES = {"orders": 256 * MIB, "photos": 64 * MIB}  # Claim to size.
POLICY_TEXT = f"""version: v1
volumePolicies:
  - conditions:
      storageClass: [{objects.CLASS_IMMEDIATE}]
    action:
      type: custom
      parameters:
        csi-delta: snapshot
"""


class DemoFailed(Exception):
    """The demo showed that something does not work."""


def say(text):
    print(text, flush=True)


def velero(bed, *arguments):
    """Runs the Velero command line and shows both sides of the conversation."""
    say(f"\n$ velero {' '.join(arguments)}")
    say(bed.velero(*arguments).stdout.rstrip())


def make_application(bed):
    """A namespace with volumes full of known bytes; returns the checksum of each."""
    bed.create_namespace(NAMESPACE)
    written = {}
    for seed, (claim, size_bytes) in enumerate(VOLUMES.items()):
        bed.create_claim(claim, NAMESPACE, size_bytes)
        written[claim] = data.fill(bed.volume_path(claim, NAMESPACE), seed, size_bytes)
        say(f"  volume {claim}: {size_bytes // MIB} MiB written, sha256 {written[claim][:16]}...")
    bed.api.create("configmaps", {
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": POLICY, "namespace": bed.namespace}, "data": {"policy.yaml": POLICY_TEXT}})
    return written


def compare(bed, written):
    """Reads every restored volume; DemoFailed if one differs."""
    for claim, checksum in written.items():
        bed.wait_bound(claim, NAMESPACE)
        found = data.checksum(bed.volume_path(claim, NAMESPACE))
        say(f"  volume {claim}: sha256 {found[:16]}... {'the same' if found == checksum else 'NOT THE SAME'}")
        if found != checksum:
            raise DemoFailed(f"volume {claim} came back with other bytes")


def show(bed):
    """The story."""
    say(f"\nAn application in namespace {NAMESPACE}, and the policy that gives its volumes to this plugin:")
    written = make_application(bed)
    say(POLICY_TEXT)
    velero(bed, "backup", "create", BACKUP, "--include-namespaces", NAMESPACE,
           "--resource-policies-configmap", POLICY, "--wait")
    handles = bed.driver.snapshots()
    say(f"\nThe storage system holds {len(handles)} volume snapshots.")
    if len(handles) != len(VOLUMES):
        raise DemoFailed(f"{len(VOLUMES)} volumes were backed up, but there are {len(handles)} snapshots")
    say(f"\nThe disaster:\n\n$ kubectl delete namespace {NAMESPACE}")
    bed.delete_namespace(NAMESPACE)
    say(f"namespace and volumes are gone; the storage system holds {len(bed.driver.snapshots())} snapshots")
    velero(bed, "restore", "create", "--from-backup", BACKUP, "--wait")
    say("\nBack again:")
    compare(bed, written)
    velero(bed, "backup", "describe", BACKUP, "--details")


def main():
    say("Starting a cluster: etcd, API server, controllers, CSI driver, S3, Velero 1.18.3 with the plugin.")
    try:
        with bed_module.Bed.up(bed_module.Settings(plugin=True)) as bed:
            show(bed)
    except (DemoFailed, bed_module.BedError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    say("\nThe cluster is taken down again; nothing of it is left.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
