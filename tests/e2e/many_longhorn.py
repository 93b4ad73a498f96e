"""Very many objects of Longhorn in a bed: copies of real ones, written into its etcd as the API server stores them."""

import datetime
import json
import uuid

import longhorn
import many

SEEN_SECONDS_MAX = 300
GROUP_VERSION = "longhorn.io/v1beta2"
_URL = f"/apis/{GROUP_VERSION}/namespaces/{longhorn.NAMESPACE}"


def key(plural, name):
    return f"{longhorn.STORED}{plural}/{longhorn.NAMESPACE}/{name}"


def stored(bed, plural, name):
    """An object as the API server stores it."""
    return json.loads(many.Etcd(bed).get(key(plural, name)))


def listed(bed, plural, **query):
    """All objects of a kind of Longhorn, as the administrator."""
    text = "&".join(f"{name}={value}" for name, value in query.items())
    return bed.api.request("GET", f"{_URL}/{plural}?{text}")["items"]


def volume_state(bed, name):
    return bed.api.request("GET", f"{_URL}/volumes/{name}").get("status", {}).get("state")


def write(bed, plural, objects, at_once=many.PUTS_MAX):
    """Stores objects, and waits until the API server knows the last one where it answers controllers."""
    objects = list(objects)
    many.Etcd(bed).put(((key(plural, one["metadata"]["name"]), json.dumps(one)) for one in objects), at_once)
    last = objects[-1]["metadata"]["name"]
    bed.wait_for(lambda: listed(bed, plural, fieldSelector=f"metadata.name={last}", resourceVersion=0),
                 SEEN_SECONDS_MAX, f"the API server to see {plural} {last}")


def delete_all(bed, plural):
    """Deletes all objects of a kind at once, whatever their finalizers."""
    many.Etcd(bed).delete_range(key(plural, ""), key(plural, "")[:-1] + "0")
    bed.wait_for(lambda: not listed(bed, plural, resourceVersion=0), SEEN_SECONDS_MAX, f"no {plural}")


def copy_of(template, name, age=datetime.timedelta()):
    """Another one of the name, and so much older than now."""
    made = json.loads(json.dumps(template))
    made["metadata"] |= {"name": name, "uid": str(uuid.uuid4()), "creationTimestamp": time_text(age)}
    return made


def time_text(age):
    """RFC 3339, of so long ago."""
    return (datetime.datetime.now(datetime.timezone.utc) - age).strftime("%Y-%m-%dT%H:%M:%SZ")


def chain(template, volume, names, job_of, owned=True):
    """The Snapshots of one volume, the oldest first, a day apart. `job_of` tells the RecurringJob of a position.

    Where the volume is not in the cluster they must not be `owned`: the garbage collector would delete them.
    """
    for position, name in enumerate(names):
        age = datetime.timedelta(days=len(names) - position)
        made = copy_of(template, name, age)
        child = names[position + 1] if position + 1 < len(names) else "volume-head"
        labels = {"RecurringJob": job_of(position)}
        made["metadata"]["labels"]["longhornvolume"] = volume["metadata"]["name"]
        made["metadata"]["ownerReferences"] = [
            {**owner, "name": volume["metadata"]["name"], "uid": volume["metadata"]["uid"]}
            for owner in template["metadata"]["ownerReferences"] if owned]
        made["spec"] |= {"volume": volume["metadata"]["name"], "labels": labels}
        made["status"] |= {"parent": names[position - 1] if position else "", "children": {child: True}, "labels": labels,
                           "creationTime": time_text(age), "requestedTime": time_text(age), "size": 1 << 20}
        yield made
