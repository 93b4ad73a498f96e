"""The plugin's settings in a bed: the ConfigMap that docs/configuration.md describes."""

import contextlib


@contextlib.contextmanager
def during(bed, **values):
    """They are these while the body runs."""
    bed.api.create("configmaps", {
        "apiVersion": "v1", "kind": "ConfigMap", "data": values,
        "metadata": {"name": "csi-delta", "namespace": bed.namespace,
                     "labels": {"velero.io/plugin-config": "", "velero.io/csi-delta": ""}}})
    try:
        yield
    finally:
        bed.api.delete("configmaps", "csi-delta", bed.namespace)
