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


def test_the_controllers_request_rate_is_a_value():
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
    ({"settings": {"limts": {"total": 4}}}, "limts"),
    ({"settings": {"limits": {"total": "4"}}}, "/settings/limits/total"),
    ({"settings": {"worker": {"podSecurity": "none"}}}, "podSecurity"),
    ({"settings": {"storageClasses": {"fast": {"limits": 4}}}}, "limits"),
    ({"image": {"digest": "0123"}}, "digest"),
    ({"monitoring": {"rules": {"enable": True}}}, "enable"),
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


POLICY, BINDING = "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"
POLICIES = {"workers": "csi-delta-worker", "volumes": "csi-delta-mover-volumes"}


def admission(values, without=""):
    """The names of the policies and of what binds them."""
    documents = mover.render(values, without=without)
    return {kind: {d["metadata"]["name"] for d in documents if d["kind"] == kind} for kind in (POLICY, BINDING)}


def test_each_policy_is_bound_and_denies():
    assert admission({}) == {POLICY: set(POLICIES.values()), BINDING: set(POLICIES.values())}
    for name in POLICIES.values():
        bound = rendered(BINDING, name)["spec"]
        assert bound == {"policyName": name, "validationActions": ["Deny"]}
        policy = rendered(POLICY, name)["spec"]
        assert policy["failurePolicy"] == "Fail" and all(v["message"] for v in policy["validations"])


def test_a_policy_is_about_an_account_of_the_chart_and_no_other():
    """What does not match it is not looked at: a mistake in it can stop the data mover, and nothing else."""
    for name, account in ((POLICIES["workers"], mover.WORKER), (POLICIES["volumes"], mover.CONTROLLER)):
        condition, = rendered(POLICY, name)["spec"]["matchConditions"]
        assert condition["expression"] == f"request.userInfo.username == '{mover.user(account)}'"


def test_the_policy_covers_all_that_workers_may_write():
    """A right to write that is added to the workers' role needs a rule, or a reason, here."""
    asked = {resource for rule in rendered(POLICY, POLICIES["workers"])["spec"]["matchConstraints"]["resourceRules"]
             for resource in rule["resources"]}
    writing = {"create", "update", "patch", "delete", "deletecollection"}
    for role in (rendered("Role", mover.WORKER), rendered("ClusterRole", mover.WORKER)):
        for rule in role["rules"]:
            if writing & set(rule["verbs"]):
                assert set(rule["resources"]) <= asked, rule


def test_workers_read_no_secrets_through_the_api_server():
    """Their own is mounted."""
    for role in (rendered("Role", mover.WORKER), rendered("ClusterRole", mover.WORKER)):
        assert not any({"secrets", "pods", "configmaps"} & set(rule["resources"]) for rule in role["rules"])


@pytest.mark.parametrize("value, name", sorted(POLICIES.items()))
def test_a_policy_can_be_left_out(value, name):
    left = set(POLICIES.values()) - {name}
    assert admission({"admission": {value: False}}) == {POLICY: left, BINDING: left}


def test_a_cluster_that_knows_no_policies_gets_none():
    assert admission({}, without="admissionregistration.k8s.io/v1") == {POLICY: set(), BINDING: set()}


def kinds(**values):
    return {d["kind"] for d in mover.render(values)}


def test_an_image_may_be_named_by_its_digest():
    digest = f"sha256:{'0' * 64}"
    made = container(image={"repository": "registry.example/csi-delta", "tag": "1.2", "digest": digest})
    assert made["image"] == f"registry.example/csi-delta@{digest}"
    assert f"--image=registry.example/csi-delta@{digest}" in made["args"]


def test_the_controller_runs_on_nodes_of_the_image():
    def selector(**values):
        return rendered("Deployment", **values)["spec"]["template"]["spec"]["nodeSelector"]
    assert selector() == {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    own = {"a": "b", "kubernetes.io/arch": "arm64"}
    assert selector(controller={"nodeSelector": own}) == {"kubernetes.io/os": "linux", **own}


def test_the_controller_has_the_proxy_of_the_settings():
    def variables(**proxy):
        return {one["name"]: one["value"] for one in container(settings={"proxy": proxy}).get("env", [])}
    assert variables() == variables(noProxy=".corp") == {}
    alone = variables(https="http://proxy:3128")
    assert alone["HTTPS_PROXY"] == "http://proxy:3128" and alone["NO_PROXY"].startswith("$(KUBERNETES_SERVICE_HOST),")
    both = variables(https="http://proxy:3128", noProxy=".corp,10.0.0.0/8")
    assert both["NO_PROXY"] == f".corp,10.0.0.0/8,{alone['NO_PROXY']}"


def test_the_user_may_be_the_namespaces():
    """As restricted-v2 of OpenShift wants it."""
    def security(**values):
        return rendered("Deployment", **values)["spec"]["template"]["spec"]["securityContext"]
    assert security()["runAsUser"] == security()["runAsGroup"] == 65532
    of_namespace = security(settings={"worker": {"podSecurity": "namespace"}})
    assert of_namespace == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}


def test_nothing_of_monitoring_is_made_unless_asked():
    """The kinds of the Prometheus operator are not in every cluster."""
    assert not {"PrometheusRule", "PodMonitor", "NetworkPolicy", "PodDisruptionBudget"} & kinds()


def test_rules_are_those_of_the_file_but_for_those_that_are_disabled():
    file = yaml.safe_load((mover.CHART / "files" / "alerts.yaml").read_text())
    monitoring = {"runbookBase": "https://docs.example/", "rules": {
        "enabled": True, "labels": {"release": "prometheus"}, "disabled": ["CsiDeltaVolumeGone"]}}
    made = rendered("PrometheusRule", "csi-delta", monitoring=monitoring)
    assert made["metadata"]["labels"]["release"] == "prometheus"
    expected = [{**rule, "annotations": {**rule["annotations"],
                                         "runbook_url": f"https://docs.example/{rule['annotations']['runbook_url']}"}}
                for rule in file["groups"][0]["rules"] if rule["alert"] != "CsiDeltaVolumeGone"]
    assert made["spec"]["groups"] == [{"name": "csi-delta", "rules": expected}]


def test_prometheus_reads_the_metrics_with_their_own_labels():
    made = rendered("PodMonitor", monitoring={"podMonitor": {"enabled": True}})
    endpoint, = made["spec"]["podMetricsEndpoints"]
    pod = rendered("Deployment")["spec"]["template"]
    assert endpoint["honorLabels"] is True, "the label namespace is that of the PVC"
    assert endpoint["port"] == pod["spec"]["containers"][0]["ports"][0]["name"]
    assert made["spec"]["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()


@pytest.mark.parametrize("peers", [[], [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}]])
def test_only_the_peers_that_are_named_read_the_metrics(peers):
    """A rule with an empty list of peers would allow all."""
    made = rendered("NetworkPolicy", monitoring={"networkPolicy": {"enabled": True, "from": peers}})
    assert made["spec"]["policyTypes"] == ["Ingress"]
    rules = made["spec"].get("ingress") or []
    assert [rule["from"] for rule in rules] == ([peers] if peers else [])
    assert all(rule["ports"] == [{"port": "http", "protocol": "TCP"}] for rule in rules)


def test_replicas_are_not_evicted_at_once():
    made = rendered("PodDisruptionBudget", controller={"replicas": 2})
    assert made["spec"]["maxUnavailable"] == 1
