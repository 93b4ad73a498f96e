"""The chart of deploy/: what Helm makes of it, and what it does not take."""

import pathlib
import sys

import pytest
import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

import images  # noqa: E402  pylint: disable=wrong-import-position
import mover  # noqa: E402  pylint: disable=wrong-import-position

VALUE_LINES_MAX = 150


def rendered(kind, name=mover.CONTROLLER, **values):
    found, = [d for d in mover.render(values) if d["kind"] == kind and d["metadata"]["name"] == name]
    return found


def container(**values):
    return rendered("Deployment", **values)["spec"]["template"]["spec"]["containers"][0]


def test_values_are_few():
    assert len((mover.CHART / "values.yaml").read_text().splitlines()) <= VALUE_LINES_MAX


def test_the_controllers_image_is_the_workers():
    made = container(image={"repository": "registry.example/csi-delta", "tag": "1.2"})
    assert made["image"] == "registry.example/csi-delta:1.2"
    assert "--image=registry.example/csi-delta:1.2" in made["args"]
    version = yaml.safe_load((mover.CHART / "Chart.yaml").read_text())["appVersion"]
    assert container()["image"].endswith(f":{version}") and version == images.image.project_version()


def test_what_the_controller_asks_of_the_api_server_is_a_value():
    args = container(controller={"requestsPerSecond": 250, "concurrentReconciles": 8})["args"]
    assert "--requests-per-second=250" in args and "--concurrent-reconciles=8" in args
    assert "--requests-per-second=100" in container()["args"]


def test_each_velero_gives_rights_in_its_own_namespace():
    documents = mover.render({"veleroNamespaces": ["velero", "velero-two"]})
    for kind in ("Role", "RoleBinding"):
        there = {d["metadata"]["namespace"] for d in documents if d["kind"] == kind}
        assert there == {mover.NAMESPACE, "velero", "velero-two"}
    assert "--velero-namespaces=velero,velero-two" in container(veleroNamespaces=["velero", "velero-two"])["args"]


def test_settings_are_what_was_given_and_a_change_of_them_restarts_the_controller():
    one, two = ({"settings": {"limits": {"total": number}}} for number in (1, 2))
    assert rendered("ConfigMap", **one)["data"] == {"config.json": '{"limits":{"total":1}}'}
    templates = [rendered("Deployment", **values)["spec"]["template"]["metadata"] for values in (one, two)]
    assert templates[0] != templates[1]


@pytest.mark.parametrize("values, words", [
    ({"veleroNamespaces": []}, "veleroNamespaces"),
    ({"veleroNamespaces": ["Not a name"]}, "veleroNamespaces"),
    ({"controler": {}}, "controler"),
    ({"image": {"pullPolicy": "Sometimes"}}, "pullPolicy"),
    ({"controller": {"replicas": -1}}, "replicas"),
    ({"controller": {"requestsPerSecond": 0}}, "requestsPerSecond"),
    ({"controller": {"concurrentReconciles": 65}}, "concurrentReconciles"),
])
def test_a_wrong_value_is_refused_by_its_name(values, words):
    with pytest.raises(mover.ChartRefused, match=words):
        mover.render(values)


def test_nothing_but_the_workers_kinds_is_for_the_whole_cluster_to_write():
    """Secrets, Pods and claims are written in the mover's namespace alone."""
    wide = [rule for d in mover.render({}) if d["kind"] == "ClusterRole" for rule in d["rules"]]
    writing = {"create", "update", "patch", "delete"}
    for rule in wide:
        if writing & set(rule["verbs"]):
            assert not {"secrets", "pods", "volumetasks"} & set(rule["resources"]), rule
        assert "secrets" not in rule["resources"]
