"""What our programs never ask of Longhorn, looked for in the audit log of every bed while it has the stand-in.

They patch and replace no object of Longhorn, set no owner, finalizer or volume label, delete nothing but by its uid, and do not
reach Longhorn's REST API through the API server. In the network of a bed nothing else serves that.
"""

import components

AGENT = "velero-plugin-for-csi-delta/"  # Of all our programs; so is the stand-in's, whose user is another one.
GROUP = "longhorn.io"
VOLUME_LABEL = "longhornvolume"
JOB_LABEL = "RecurringJob"  # By this one Longhorn's own jobs know what they may delete.


def check(bed, since):
    """Fails, naming each request, if csi-delta asked for what it never may."""
    broken = [f"{event['user']['username']}: {event['requestURI']}: {what}"
              for event in bed.audit_events(since=since)
              if event["stage"] != "ResponseStarted" and is_managed(bed, event) for what in broken_by(event)]
    assert not broken, "\n".join(broken)


def broken_by(event):
    """What is wrong with a request of csi-delta."""
    ref = event.get("objectRef") or {}
    if ref.get("subresource") == "proxy":
        yield "goes through the API server to another server"
    if ref.get("apiGroup") != GROUP:
        return
    verb, body = event["verb"], event.get("requestObject") or {}
    if verb in ("patch", "update", "deletecollection"):
        yield f"is of the verb {verb}"
    if verb == "delete" and not (body.get("preconditions") or {}).get("uid"):
        yield "deletes whatever has the name"
    if verb == "create":
        yield from _broken_by_object(body)
        if not body and event["responseStatus"]["code"] < 300:  # One that may not create is not asked for what.
            yield "has no body in the audit log"


def _broken_by_object(made):
    meta = made.get("metadata") or {}
    for field in ("ownerReferences", "finalizers"):
        if meta.get(field):
            yield f"sets {field}"
    if VOLUME_LABEL in (meta.get("labels") or {}):
        yield f"sets the label {VOLUME_LABEL}"
    labels = (made.get("spec") or {}).get("labels") or {}
    if JOB_LABEL in labels:
        yield f"sets the engine label {JOB_LABEL}"
    if any(sign in text for pair in labels.items() for text in pair for sign in "=\n"):
        yield "has = or a newline in an engine label"


def is_managed(bed, event):
    """Whether a program of csi-delta asked, by whatever account."""
    user = event["user"]["username"]
    return user == bed.plugin_user or (event.get("userAgent", "").startswith(AGENT) and user != components.LONGHORN_USER)
