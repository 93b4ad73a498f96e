"""Rights that are listed for the plugin and the data mover, and those that they used as the audit log shows."""

import dataclasses
import pathlib

import yaml

RULES = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "rbac.yaml"


@dataclasses.dataclass(frozen=True, order=True)
class Right:
    """One verb on one kind of object."""

    verb: str
    group: str
    resource: str  # "plural" or "plural/subresource"

    def __str__(self):
        return f"{self.verb} {self.resource}.{self.group}"


@dataclasses.dataclass(frozen=True)
class Request:
    """A request and the API server's answer."""

    right: Right
    code: int
    is_granted: bool  # The account had the right. A quota or a webhook refuses, with 403, what is granted.
    namespace: str = ""


def of_rules(rules):
    """Every right in some rules."""
    return {Right(verb, group, resource) for rule in rules for verb in rule["verbs"]
            for group in rule["apiGroups"] for resource in rule["resources"]}


def listed(manifest=RULES):
    """Every right in a manifest: that of the plugin."""
    documents = yaml.safe_load_all(manifest.read_text())
    return {right for document in documents for right in of_rules((document or {}).get("rules", []))}


def bound(documents, account):
    """The rights that objects give to a service account, as pairs of a namespace ("": everywhere) and a right."""
    roles = {(d["kind"], d["metadata"].get("namespace", ""), d["metadata"]["name"]): d.get("rules", [])
             for d in documents if d["kind"] in ("Role", "ClusterRole")}
    found = set()
    for binding in documents:
        if binding["kind"] in ("RoleBinding", "ClusterRoleBinding") and any(
                subject["name"] == account for subject in binding["subjects"]):
            namespace = binding["metadata"].get("namespace", "")
            rules = roles[binding["roleRef"]["kind"], namespace, binding["roleRef"]["name"]]
            found |= {(namespace, right) for right in of_rules(rules)}
    return found


def used(given, requests):
    """Those of the given rights, as `bound` returns them, without which a request had been refused."""
    return {(request.namespace if (request.namespace, request.right) in given else "", request.right)
            for request in requests} & given


def requests_of(events):
    """The requests in audit events that concern objects."""
    found = []
    for event in events:
        ref = event.get("objectRef")
        if ref and "responseStatus" in event:
            resource = ref["resource"]
            if ref.get("subresource"):
                resource += "/" + ref["subresource"]
            right = Right(event["verb"], ref.get("apiGroup", ""), resource)
            decision = event.get("annotations", {}).get("authorization.k8s.io/decision")
            found.append(Request(right, event["responseStatus"].get("code", 0), decision == "allow",
                                 ref.get("namespace", "")))
    return found
