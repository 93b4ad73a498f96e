"""csi-delta with a repository in a folder, run inside a bed, and restic beside it."""

import json
import os
import pathlib

import data
import metadata
from processes import BedError

CHUNK_BYTES = 512 << 10
VOLUME_BYTES = 64 << 20
PROGRAM = pathlib.Path(os.environ.get("CSI_DELTA_PROGRAM")
                       or pathlib.Path(__file__).resolve().parents[2] / "build/release/bin/csi-delta")


class Engine:
    """csi-delta with a repository in a folder, run inside a bed."""

    def __init__(self, bed, folder, kubeconfig=None):
        self.bed = bed
        self.kubeconfig = kubeconfig or metadata.kubeconfig(bed, metadata.CLIENT)
        self.variables = [f"RESTIC_REPOSITORY={folder}", "RESTIC_PASSWORD=secret", f"RESTIC_CACHE_DIR={folder}-cache"]
        self.run("init")

    def _execute(self, *command, exit_code=0):
        done = self.bed.run(["/usr/bin/env", *self.variables, *command], check=False)
        if done.returncode != exit_code:
            raise BedError(f"`{' '.join(map(str, command))}` ended with {done.returncode}, not {exit_code}:\n"
                           f"{done.stdout}{done.stderr}")
        return done.stdout

    def run(self, *arguments, exit_code=0):
        """The result that csi-delta prints last."""
        return json.loads(self._execute(PROGRAM, *arguments, "--json", exit_code=exit_code).splitlines()[-1])

    def restic(self, *arguments):
        return self._execute("/usr/bin/restic", *arguments)

    def device_of(self, snapshot, namespace):
        """The bytes of a claim that is made of a VolumeSnapshot."""
        self.bed.create_claim(f"of-{snapshot}", namespace, VOLUME_BYTES, snapshot=snapshot)
        return self.bed.volume_path(f"of-{snapshot}", namespace)

    def backup(self, snapshot, namespace, exit_code=0):
        """Backs up the claim of a VolumeSnapshot, as a person does it; the result, and the bytes' digest."""
        device = self.device_of(snapshot, namespace)
        result = self.run("backup", "--volume-snapshot", f"{namespace}/{snapshot}", "--path", f"/{namespace}/data",
                          "--kubeconfig", self.kubeconfig, device,
                          exit_code=exit_code)
        return result, data.checksum(device, VOLUME_BYTES)

    def restored_digest(self, result, target):
        """The digest of what a backup restores to."""
        self.run("restore", result["snapshot_id"], "--target", str(target))
        return data.checksum(target)
