"""The manifests of csi-delta diffsnap agree with each other and with the program."""

import json
import pathlib
import subprocess
import sys

import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

import build  # noqa: E402  pylint: disable=wrong-import-position
import components  # noqa: E402  pylint: disable=wrong-import-position
import differential  # noqa: E402  pylint: disable=wrong-import-position


def test_the_manifests_fit_each_other():
    parts = {(d["kind"], d["metadata"]["name"]): d for d in differential.manifest()}
    service = parts["Service", differential.ACCOUNT]
    policy = parts["NetworkPolicy", differential.ACCOUNT]
    template = yaml.safe_load(differential.SIDECAR.read_text())["spec"]["template"]
    container, = template["spec"]["containers"]
    port, = container["ports"]
    served, = service["spec"]["ports"]
    allowed, = policy["spec"]["ingress"][0]["ports"]
    assert served["targetPort"] == port["name"]
    assert allowed == {"protocol": "TCP", "port": port["containerPort"]}
    assert f"--listen=0.0.0.0:{port['containerPort']}" in container["args"]
    assert f"--url=https://{differential.ACCOUNT}.{differential.NAMESPACE}.svc:{served['port']}" in container["args"]
    assert service["spec"]["selector"] == policy["spec"]["podSelector"]["matchLabels"]
    assert service["spec"]["selector"].items() <= template["metadata"]["labels"].items()
    flags = {argument.partition("=")[0] for argument in container["args"]}
    assert all(f"  {flag} " in differential.help_text() for flag in flags)
    assert container["command"][1:] == ["diffsnap"]
    secrets = {volume["secret"]["secretName"] for volume in template["spec"]["volumes"]}
    assert f"{differential.ACCOUNT}-cursor-key" in secrets
    assert components.DIFFSNAP_NAMESPACE == service["metadata"]["namespace"]


def test_no_manifest_holds_a_secret():
    """Applied again, an upgrade would put the value of the file over the operator's."""
    for path in sorted(differential.DEPLOY.glob("*.yaml")):
        kinds = [document["kind"] for document in yaml.safe_load_all(path.read_text()) if document and "kind" in document]
        assert "Secret" not in kinds, path


def test_no_role_gives_tokens_of_every_account():
    """Such a right in a namespace is every right that an account of the namespace has."""
    found = 0
    for path in sorted(differential.DEPLOY.glob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            for rule in (document or {}).get("rules", []):
                if "serviceaccounts/token" in rule["resources"]:
                    found += 1
                    assert rule.get("resourceNames"), f"{path}: {document['metadata']['name']}"
    assert found


def test_the_sidecar_is_added_to_the_deployment_of_a_driver(tmp_path):
    """By kubectl, as the page says, without a cluster."""
    name = "some-driver"
    deployment = tmp_path / "deployment.json"
    deployment.write_text(json.dumps({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": differential.NAMESPACE},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"app": name}}, "template": {
            "metadata": {"labels": {"app": name}},
            "spec": {"containers": [{"name": "driver", "image": "driver"}],
                     "volumes": [{"name": "socket-dir", "emptyDir": {}}]}}}}))
    kubectl = build.build("kube") / "bin" / "kubectl"
    done = subprocess.run([kubectl, "patch", "--local", "-f", deployment, "--patch-file", differential.SIDECAR, "-o", "json"],
                          check=True, capture_output=True, text=True, env={"HOME": str(tmp_path)})
    patched = json.loads(done.stdout)["spec"]["template"]["spec"]
    assert sorted(c["name"] for c in patched["containers"]) == ["csi-delta-diffsnap", "driver"]
    assert len(patched["volumes"]) == 3
