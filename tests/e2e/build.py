#!/usr/bin/python3
"""Builds the programs of the test bed from the Go modules below modules/, once.

    build.py [--update] [module... | --but module]
    build.py --download MODULE GO-MODULE  # Prints the folder of its sources, as the versions of MODULE have it.

Without a name it builds all modules of the bed, perhaps but one. The products go to a cache outside the checkout,

    ${CSI_DELTA_CACHE:-~/.cache/csi-delta}/bed/<module>-<sha256 of its inputs>/{bin,share}/

so a second call, and a second checkout, finds them. Progress goes to stderr, the path of each
product folder to stdout. A build happens in a temporary folder that is renamed when it is whole,
and under a lock, so callers may run side by side and may be killed.

All modules, and the harness of tests/pluginmanager, share one go.sum, which holds what these builds need.
--update has Go complete go.mod and go.sum ("-mod=mod"); needed once after a version changed.
"""

import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import yaml

HERE = pathlib.Path(__file__).resolve().parent
MODULES_FOLDER = HERE / "modules"
SUMS = MODULES_FOLDER / "go.sum"
HEARTBEAT_SECONDS = 20
LAYOUT = 1  # Raise it when the content of a product folder changes: old products are not used then.

KUBE_VERSION = "v1.37.2"
KUBE_FLAGS = " ".join(
    f"-X k8s.io/component-base/version.{key}={value}"
    for key, value in (("gitVersion", KUBE_VERSION), ("gitMajor", "1"), ("gitMinor", "37")))

CSI = "github.com/kubernetes-csi"

# Judges need not be fast, and are built on every fresh machine: nothing is inlined (a quarter of the compiler's time)
# but in what they spend their own time in, and they are not debugged. These optional passes, which a build for a debugger
# (-N) leaves out as well, take a tenth of the rest. A package is compiled by one thread, because there are more packages
# than processors. The last pattern that fits a package counts.
LEFT_OUT = ",".join(f"ssa/{name}/off=1" for name in (
    "prove", "generic_cse", "lowered_cse", "sccp", "dse", "memcombine", "branchelim", "phiopt"))
COMPILER_FLAGS = (f"-gcflags=all=-l -dwarf=false -c=1 -d={LEFT_OUT}",
                  *(f"-gcflags={busy}=-dwarf=false -c=1" for busy in (
                      "std", "k8s.io/apimachinery/...", "sigs.k8s.io/json/...", "google.golang.org/protobuf/...")))

# Velero is built without what Google's storage would be reached by over gRPC: a twentieth of all packages' sources.
TAGS = "disable_grpc_modules"

# The compiler collects garbage only near this limit: all of the bed takes 7 % less than with GOGC=400.
COLLECTION = {"GOGC": "off", "GOMEMLIMIT": "2GiB"}
RELEASED = {**os.environ, "GOTOOLCHAIN": "local", "CGO_ENABLED": "0", "GOWORK": "off", "GOFLAGS": "-trimpath", **COLLECTION}


@dataclasses.dataclass(frozen=True)
class Module:
    """Programs that are built together: what of, and what to make of the products."""

    name: str
    packages: tuple  # Arguments of `go build`.
    ldflags: str = ""
    links: tuple = ()  # Further names of the one program.
    in_bed: bool = True  # Else it is built by name alone.
    versions: str = "cluster"  # The folder below modules/ whose go.mod it is built with.
    # Or a module as its author released it, with its own go.mod and go.sum: "PATH@VERSION SUM". No input of other products.
    released: str = dataclasses.field(default="", repr=False)

    @property
    def folder(self):
        """Where its go.mod is."""
        return MODULES_FOLDER / self.versions

    def compiler_flags(self):
        """What the compiler is told beside its defaults; an other tool of a bench keeps those."""
        return COMPILER_FLAGS if self.in_bed or self.released else ()


VELERO = "github.com/vmware-tanzu/velero"

MODULES = {
    module.name: module for module in (
        Module("kube", ("./kube",), KUBE_FLAGS,
               ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kubectl", "csi-registrar")),
        Module("csi", (f"{CSI}/csi-test/v5/cmd/csi-sanity", f"{CSI}/external-provisioner/v6/cmd/csi-provisioner",
                       f"{CSI}/external-resizer/v2/cmd/csi-resizer",
                       f"{CSI}/external-snapshotter/v8/cmd/csi-snapshotter",
                       f"{CSI}/external-snapshotter/v8/cmd/snapshot-controller"), "-X main.version=v0.0.0-e2e"),
        Module("velero118", (f"{VELERO}/cmd/velero",), f"-X {VELERO}/pkg/buildinfo.Version=v1.18.3"),
        Module("awsplugin", (f"{VELERO}-plugin-for-aws/velero-plugin-for-aws",)),
        Module("gcpplugin", (f"{VELERO}-plugin-for-gcp/velero-plugin-for-gcp",)),
        Module("s3", ("github.com/versity/versitygw/cmd/versitygw",)),
        Module("metadata", (f"{CSI}/external-snapshot-metadata/cmd/csi-snapshot-metadata", "./metadata/lister",
                            "./metadata/replay")),
        Module("helm", ("./render",)),
        Module("velero113", (f"{VELERO}/cmd/velero",), f"-X {VELERO}/pkg/buildinfo.Version=v1.13.1", versions="velero113"),
        Module("kopia", ("tool",), in_bed=False, versions="kopia"),
        Module("datapath", ("./datapath",), in_bed=False),
        Module("gcs", (".",), in_bed=False, released="github.com/fsouza/fake-gcs-server@v1.56.1 "
               "h1:K03sAvbLvDz4hAynpCCUqnNRp+ik9JFSvHbkD/wTPOU="),
    )
}


def cache_dir():
    """The folder that holds every product of the bed; outside the checkout."""
    root = os.environ.get("CSI_DELTA_CACHE") or os.path.expanduser("~/.cache/csi-delta")
    return pathlib.Path(root) / "bed"


@contextlib.contextmanager
def go_environment(mod_file, update=False):
    """The environment of Go calls with these versions and the sums of all. GOPROXY stays as the machine has it."""
    with tempfile.TemporaryDirectory(prefix="go-mod-") as folder:  # Go looks for go.sum beside go.mod.
        copy = shutil.copy(mod_file, f"{folder}/go.mod")
        sums = shutil.copy(SUMS, folder)
        yield {**os.environ, "GOTOOLCHAIN": "local", "CGO_ENABLED": "0", "GOWORK": "off", **COLLECTION,
               "GOFLAGS": f"-trimpath -modfile={copy}" + (" -mod=mod" if update else "")}
        if update:
            shutil.copy(copy, mod_file)
            shutil.copy(sums, SUMS)


def module_dir(name, path):
    """Where the sources of a Go module are, in the version that a module of the bed requires; downloads them if need be."""
    folder = MODULES[name].folder
    with go_environment(folder / "go.mod") as env:
        answer = subprocess.run(["go", "mod", "download", "-json", path], cwd=folder, env=env, check=True,
                                stdout=subprocess.PIPE, text=True)
    return pathlib.Path(json.loads(answer.stdout)["Dir"])


def released_dir(module):
    """Where the sources of a module are that is built as its author released it; downloads them if need be."""
    path, _, digest = module.released.partition(" ")
    with tempfile.TemporaryDirectory() as folder:  # Without a go.mod above it.
        answer = json.loads(subprocess.run(["go", "mod", "download", "-json", path], cwd=folder, env=RELEASED, check=True,
                                           stdout=subprocess.PIPE, text=True).stdout)
    if answer["Sum"] != digest:
        raise SystemExit(f"bed: {path}: its sum is {answer['Sum']}, not {digest}")
    return pathlib.Path(answer["Dir"])


def go_version():
    """The version of the toolchain, which is an input of every product."""
    return subprocess.run(["go", "env", "GOVERSION"], env={**os.environ, "GOTOOLCHAIN": "local"}, check=True,
                          capture_output=True, text=True).stdout.strip()


def input_digest(module):
    """Names one state of everything that a product depends on; sums decide only whether it is built."""
    digest = hashlib.sha256()
    digest.update(repr((module, module.compiler_flags(), TAGS, go_version(), LAYOUT)).encode())
    digest.update(module.released.encode())
    for path in sorted(() if module.released else module.folder.rglob("*")):
        if path.is_file():
            digest.update(f"\0{path.relative_to(module.folder)}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def product_dir(name):
    """Where the product of a module is, or will be, for its present inputs."""
    module = MODULES[name]
    return cache_dir() / f"{name}-{input_digest(module)}"


def say(text):
    print(text, file=sys.stderr, flush=True)


def run_with_heartbeat(name, command, **kwargs):
    """Runs one long command; says every now and then that it is still at it."""
    start = time.monotonic()
    process = subprocess.Popen(command, **kwargs)
    while True:
        try:
            code = process.wait(timeout=HEARTBEAT_SECONDS)
            break
        except subprocess.TimeoutExpired:
            say(f"bed: {name}: building, {time.monotonic() - start:.0f} s")
    if code != 0:
        raise SystemExit(f"bed: {name}: `{' '.join(map(str, command))}` failed with code {code}")


def write_json_list(path, documents):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([d for d in documents if d], indent=1))


def add_shared_files(module, target):
    """CRDs that the module ships, as one JSON list: a bed then starts without Go and YAML."""
    if module.name == "csi":
        crds = module_dir("csi", "github.com/kubernetes-csi/external-snapshotter/client/v8") / "config" / "crd"
        documents = [yaml.safe_load(path.read_text())
                     for path in sorted(crds.glob("*snapshot.storage.k8s.io_*.yaml"))]
        write_json_list(target / "share" / "crds.json", documents)
    if module.name == "metadata":
        write_json_list(target / "share" / "crds.json",
                        [yaml.safe_load((module.folder / "metadata" / "crd.yaml").read_text())])
    if module.name.startswith("velero"):
        listing = subprocess.run(
            [target / "bin" / "velero", "install", "--crds-only", "--dry-run", "-o", "json"],
            check=True, capture_output=True, text=True,
            env={**os.environ, "KUBECONFIG": "/dev/null"})
        documents = json.loads(listing.stdout)
        write_json_list(target / "share" / "crds.json", documents["items"])


def build_into(module, target, update):
    """Builds one module into an empty folder."""
    (target / "bin").mkdir(parents=True)
    command = ["go", "build", "-p", "2", *module.compiler_flags(), "-tags", TAGS, "-ldflags", f"-s -w {module.ldflags}".strip(),
               "-o", f"{target}/bin/", *module.packages]
    if module.released:
        run_with_heartbeat(module.name, command, cwd=released_dir(module), env=RELEASED)
    else:
        with go_environment(module.folder / "go.mod", update) as env:
            run_with_heartbeat(module.name, command, cwd=module.folder, env=env)
    for link in module.links:
        (target / "bin" / link).symlink_to(module.name)
    add_shared_files(module, target)


def cached(cache, name, product_of, make, update):
    """The folder that `make(folder)` fills once, or again for an `update`, and that `product_of()` names by its inputs."""
    cache.mkdir(parents=True, exist_ok=True)
    with open(cache / f"{name}.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        product = product_of()
        if product.is_dir() and not update:
            return product
        for stale in cache.glob(f"{name}.tmp-*"):  # Left by a killed build; we hold the lock.
            shutil.rmtree(stale)
        say(f"bed: {name}: building")
        start = time.monotonic()
        scratch = pathlib.Path(tempfile.mkdtemp(prefix=f"{name}.tmp-", dir=cache))
        make(scratch)
        scratch.chmod(0o755)
        product = product_of()  # --update may have changed an input.
        if product.is_dir():
            shutil.rmtree(scratch)
        else:
            scratch.rename(product)
        say(f"bed: {name}: built in {time.monotonic() - start:.0f} s")
        return product


def build(name, update=False):
    """Makes sure that the product of one module exists; returns its folder."""
    return cached(cache_dir(), name, lambda: product_dir(name), lambda folder: build_into(MODULES[name], folder, update), update)


def main(arguments):
    if arguments[:1] == ["--download"]:
        print(module_dir(*arguments[1:]))
        return
    update = "--update" in arguments
    names = [a for a in arguments if a != "--update"]
    if names[:1] == ["--but"]:
        names = [module.name for module in MODULES.values() if module.in_bed and module.name not in names[1:]]
    names = names or [module.name for module in MODULES.values() if module.in_bed]
    unknown = [n for n in names if n not in MODULES]
    if unknown:
        raise SystemExit(f"bed: no such module: {' '.join(unknown)}; there are {' '.join(MODULES)}")
    for name in names:
        print(build(name, update), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
