"""What a stolen token of the data mover can do: the policies of the chart, asked of a real API server."""

import contextlib

import pytest

import cluster_api
import differential
import mover

pytestmark = pytest.mark.moves
OWN, OTHERS = "rights-own", "rights-others"
POLICIES_SECONDS_MAX = 60  # An API server enforces a new policy after a moment.


def worker_pod(name):
    """A Pod of a worker that is never scheduled: its token is what matters."""
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": mover.NAMESPACE},
            "spec": {"serviceAccountName": mover.WORKER, "schedulerName": "none",
                     "securityContext": {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
                     "containers": [{"name": "worker", "image": "none",
                                     "securityContext": {"allowPrivilegeEscalation": False,
                                                         "capabilities": {"drop": ["ALL"]}}}]}}


def task(name):
    return {"apiVersion": "mover.csi-delta.io/v1alpha1", "kind": "VolumeTask",
            "metadata": {"name": name, "namespace": mover.NAMESPACE},
            "spec": {"type": "Upload", "subject": {"kind": "DataUpload", "namespace": "velero", "name": name, "uid": "none"}}}


def bound_to(pod):
    return {"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"],
                               "uid": pod["metadata"]["uid"]}}


def as_account(bed, account, **spec):
    """The API server as an account of the data mover, with a token that is made for a Pod or for none."""
    token = bed.api.token(account, mover.NAMESPACE, 3600, **spec)
    return cluster_api.ClusterApi(bed.name, bed.pki, token=token)


@contextlib.contextmanager
def refused(words):
    with pytest.raises(cluster_api.ApiError, match=words) as found:
        yield
    assert found.value.code in (403, 422), found.value


def await_refusal(bed, words, call):
    """Until the policy that says these words is enforced."""
    def is_refused():
        try:
            call()
        except cluster_api.ApiError as error:
            return words in str(error)
        return False
    bed.wait_for(is_refused, POLICIES_SECONDS_MAX, f"a refusal: {words}")


def report(api, name):
    return api.patch("volumetasks", name, {"status": {"phase": "Running"}}, mover.NAMESPACE, "status")


@pytest.fixture(name="served")
def _served(bed):
    """A bed with the data mover's rights, two workers and their tasks, and no controller that minds them."""
    differential.define(bed)
    with mover.stopped(bed):
        pods = {name: bed.api.create("pods", worker_pod(name)) for name in (OWN, OTHERS)}
        try:
            for name in pods:
                bed.api.create("volumetasks", task(name))
            yield bed, pods
        finally:
            for name in pods:
                for plural in ("volumetasks", "pods"):
                    bed.api.delete(plural, name, mover.NAMESPACE)


def test_a_worker_writes_its_own_task_and_nothing_else(served):
    bed, pods = served
    worker = as_account(bed, mover.WORKER, **bound_to(pods[OWN]))
    unbound = as_account(bed, mover.WORKER)
    with bed.refusing():
        await_refusal(bed, "own Pod's name", lambda: report(worker, OTHERS))
        report(worker, OWN)
        with refused("bound to its Pod"):
            report(unbound, OWN)
        for target, name in ((OTHERS, "rights-stolen"), (OWN, "rights-asked")):
            asked = differential.make(name, mover.NAMESPACE, targetVolumeSnapshotName=target)
            if target == OWN:
                worker.create("differentialsnapshots", asked)
                continue
            with refused("its own VolumeSnapshot"):
                worker.create("differentialsnapshots", asked)
            bed.api.create("differentialsnapshots", asked)
            with refused("its own VolumeSnapshot"):
                worker.delete("differentialsnapshots", name, mover.NAMESPACE)
            bed.api.delete("differentialsnapshots", name, mover.NAMESPACE)
        worker.delete("differentialsnapshots", "rights-asked", mover.NAMESPACE)


def test_a_worker_gets_no_token_of_another_workers_pod(served):
    bed, pods = served
    worker = as_account(bed, mover.WORKER, **bound_to(pods[OWN]))
    with bed.refusing():
        await_refusal(bed, "own Pod alone", lambda: worker.token(mover.WORKER, mover.NAMESPACE, 3600, **bound_to(pods[OTHERS])))
        for words, seconds, spec in (("own Pod alone", 3600, {}), ("an hour at most", 86400, bound_to(pods[OWN]))):
            with refused(words):
                worker.token(mover.WORKER, mover.NAMESPACE, seconds, **spec)
        assert worker.token(mover.WORKER, mover.NAMESPACE, 3600, **bound_to(pods[OWN]))
        assert worker.token(mover.WORKER, mover.NAMESPACE, 3600, audiences=["a-list"], **bound_to(pods[OWN]))
        with refused("cannot create resource"):
            worker.token(mover.CONTROLLER, mover.NAMESPACE, 3600)


def volume(name, source):
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
            "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
                     "persistentVolumeReclaimPolicy": "Retain", "storageClassName": "none", **source}}


def test_the_controller_makes_and_changes_no_volume_but_csi_ones(served):
    bed, _ = served
    controller = as_account(bed, mover.CONTROLLER)
    host = volume("rights-host", {"hostPath": {"path": "/etc"}})
    ours = volume("rights-csi", {"csi": {"driver": "none.example", "volumeHandle": "rights"}})
    label = {"metadata": {"labels": {"rights": "tested"}}}

    def make_host_volume():
        controller.create("persistentvolumes", host)
        bed.api.delete("persistentvolumes", "rights-host")
    with bed.refusing():
        await_refusal(bed, "CSI drivers alone", make_host_volume)
        bed.api.create("persistentvolumes", host)
        try:
            with refused("CSI drivers alone"):
                controller.patch("persistentvolumes", "rights-host", label)
            with refused("CSI drivers alone"):
                controller.delete("persistentvolumes", "rights-host")
        finally:
            bed.api.delete("persistentvolumes", "rights-host")
        controller.create("persistentvolumes", ours)
        controller.patch("persistentvolumes", "rights-csi", label)
        controller.delete("persistentvolumes", "rights-csi")
