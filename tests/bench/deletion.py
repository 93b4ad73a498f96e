#!/usr/bin/python3
"""How long a prune takes to delete many packs from a bucket of S3 that is far away.

    deletion.py --store BUCKET_BENCH --program CSI-DELTA [--ms N] [--objects N] [--keep FOLDER]

Fills the bucket with packs that no index lists, and prunes: one listing, then the deletions. Prints the seconds, what a
million would take at that rate, and the requests that the server saw. Exits with 1 if a million would take more than
two minutes. The store has a processor to itself only where there are more than two.
"""

import argparse
import concurrent.futures
import datetime
import hashlib
import hmac
import http.client
import pathlib
import sys
import threading
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import engine_lab  # noqa: E402
import engine_tools  # noqa: E402
import network  # noqa: E402

MILLION, SECONDS_MAX = 1_000_000, 120
WRITERS = 64
EMPTY = hashlib.sha256().hexdigest()


def signed(host, path):
    """The headers of a PUT of nothing, by Signature V4."""
    variables = dict(network.ENVIRONMENT)
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    scope = f"{now[:8]}/{variables['AWS_REGION']}/s3/aws4_request"
    headers = {"host": host, "x-amz-content-sha256": EMPTY, "x-amz-date": now}
    lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
    canonical = "\n".join(["PUT", path, "", lines, ";".join(headers), EMPTY])
    key = f"AWS4{variables['AWS_SECRET_ACCESS_KEY']}".encode()
    for step in scope.split("/"):
        key = hmac.digest(key, step.encode(), "sha256")
    text = "\n".join(["AWS4-HMAC-SHA256", now, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    return {**headers, "authorization": f"AWS4-HMAC-SHA256 Credential={variables['AWS_ACCESS_KEY_ID']}/{scope}, "
                                        f"SignedHeaders={';'.join(headers)}, Signature={signature}"}


def fill(address, count):
    """Packs of a repository, all empty."""
    host, own = urllib.parse.urlsplit(address).netloc, threading.local()

    def put(number):
        name = hashlib.sha256(str(number).encode()).hexdigest()
        path = f"/bucket/repo/data/{name[:2]}/{name}"
        if not hasattr(own, "connection"):
            own.connection = http.client.HTTPConnection(host)
        own.connection.request("PUT", path, headers=signed(host, path))
        answer = own.connection.getresponse()
        if answer.status != 200:
            raise engine_lab.BenchError(f"put {path}: {answer.status} {answer.read()[:200]}")
        answer.read()

    with concurrent.futures.ThreadPoolExecutor(WRITERS) as pool:
        for _ in pool.map(put, range(count)):
            pass


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", required=True)
    parser.add_argument("--program", required=True, type=pathlib.Path)
    parser.add_argument("--ms", type=int, default=30)
    parser.add_argument("--objects", type=int, default=50_000)
    parser.add_argument("--keep")
    options = parser.parse_args()
    with engine_lab.Lab(options.keep) as lab, network.store(options.store, options.ms) as buckets:
        print(engine_lab.machine(), flush=True)
        tool, url = network.contestant(options.program, "s3", buckets.addresses)
        environment = {"RESTIC_PASSWORD": engine_tools.PASSWORD, **dict(tool.environment)}
        lab.measure([options.program, "-r", url, "init", "-q"], environment, cold=False)
        fill(buckets.addresses["s3"], options.objects)
        before = buckets.requests()["s3"]
        sample = lab.measure([options.program, "-r", url, "prune", "--json"], environment, cold=False)
        seen = buckets.requests()["s3"] - before
        deleted = engine_tools.result(sample)["packs_deleted"]
    million = sample.seconds * MILLION / options.objects
    held = deleted == options.objects and million <= SECONDS_MAX
    print(f"{'PASS' if held else 'FAIL'} {options.ms} ms  {deleted} of {options.objects} packs in {sample.seconds:.1f} s, "
          f"{seen} requests, peak {sample.peak_bytes / network.MIB:.0f} MiB; a million: {million:.0f} s")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
