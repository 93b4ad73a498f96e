"""Volume policies, as the ConfigMaps that `--resource-policies-configmap` names."""

import json


def rule(value, **conditions):
    """A rule that gives the matching volumes to us; `value` is what `csi-delta` is set to."""
    return {"conditions": conditions,
            "action": {"type": "custom", "parameters": {"csi-delta": value}}}


def plain_rule(action, **conditions):
    """A rule with an action that has no parameters, such as skip or fs-backup."""
    return {"conditions": conditions, "action": {"type": action}}


def config_map(name, namespace, rules):
    document = {"version": "v1", "volumePolicies": list(rules)}
    return {"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": namespace},
            "data": {"policy.yaml": json.dumps(document)}}  # JSON is YAML.
