"""Images for the node of a bed, without a registry: archives that containerd imports."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import image

BUSYBOX, PRODUCT = "localhost/bed-busybox:e2e", "localhost/csi-delta:e2e"
BUSYBOX_PROGRAM = pathlib.Path("/bin/busybox")  # Debian's busybox-static: one program, which is a shell and its tools.


def shell(script):
    """The command line of a shell script in a Pod of busybox."""
    return ["/bin/busybox", "sh", "-euc", script]


def busybox():
    """An image that waits for ever unless told what to do: for sandboxes, and for the Pods of tests."""
    content = BUSYBOX_PROGRAM.read_bytes()
    return image.make_archive(
        [image.File("bin/busybox", 0o755, content)], image.elf_architecture(content),
        {"Cmd": ["/bin/busybox", "sleep", "infinity"], "Env": ["PATH=/bin"]}, BUSYBOX)


def product(plugin, program):
    """The image that `./dev image` makes of these two."""
    return image.make_image(plugin.read_bytes(), program.read_bytes(), PRODUCT)
