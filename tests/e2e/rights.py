"""Rights that deploy/rbac.yaml lists, and rights that the plugin used as the audit log shows."""

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
    """A request of the plugin and the API server's answer."""

    right: Right
    code: int


def listed():
    """Every right in deploy/rbac.yaml."""
    found = set()
    for document in yaml.safe_load_all(RULES.read_text()):
        for rule in (document or {}).get("rules", []):
            found |= {Right(verb, group, resource) for verb in rule["verbs"]
                      for group in rule["apiGroups"] for resource in rule["resources"]}
    return found


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
            found.append(Request(right, event["responseStatus"].get("code", 0)))
    return found
