"""An S3 server on loopback, with or without a network that is far away."""

import argparse
import asyncio
import contextlib
import os
import pathlib
import socket
import subprocess
import sys
import time

import engine_lab  # Also brings the folder of the test bed.

ACCESS_KEY, SECRET_KEY, REGION = "bench-access", "bench-secret-key", "us-east-1"
BUCKET = "bench"
PIECE_BYTES = 256 * 1024
PACED_PIECE_BYTES = 64 * 1024
START_SECONDS_MAX = 20
ENVIRONMENT = (("AWS_ACCESS_KEY_ID", ACCESS_KEY), ("AWS_SECRET_ACCESS_KEY", SECRET_KEY), ("AWS_REGION", REGION),
               ("AWS_DEFAULT_REGION", REGION), ("AWS_EC2_METADATA_DISABLED", "true"))


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def answers(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


@contextlib.contextmanager
def _running(command, port, log):
    with open(log, "wb") as output:
        process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                   env={"PATH": os.environ["PATH"], "HOME": str(log.parent)})
        try:
            engine_lab.processes.wait_until(lambda: answers(port), START_SECONDS_MAX, f"an answer; see {log}")
            yield
        finally:
            process.kill()
            process.wait()


@contextlib.contextmanager
def server(lab):
    """Runs versitygw; gives the URL of a bucket and the folder where its objects lie."""
    import build as bed_build

    folder = lab.folder / "s3"
    (folder / BUCKET).mkdir(parents=True, exist_ok=True)
    port = free_port()
    command = [bed_build.build("s3") / "bin" / "versitygw", "--access", ACCESS_KEY, "--secret", SECRET_KEY, "--region",
               REGION, "--port", f"127.0.0.1:{port}", "posix", folder]
    with _running(command, port, lab.folder / "s3.log"):
        yield f"s3:http://127.0.0.1:{port}/{BUCKET}", folder / BUCKET


@contextlib.contextmanager
def far_away(lab, url, round_trip_ms, bytes_per_second=0):
    """The same bucket, as many milliseconds away, each connection with that pace (0: any); gives its URL."""
    near = int(url.split(":")[3].split("/")[0])
    port = free_port()
    command = [sys.executable, pathlib.Path(__file__), "--listen", port, "--to", near, "--ms", round_trip_ms / 2,
               "--pace", bytes_per_second]
    with _running(command, port, lab.folder / "far.log"):
        yield url.replace(f":{near}/", f":{port}/")


async def _carry(reader, writer, delay_seconds, bytes_per_second):
    """One direction: each piece leaves a fixed time after it came; many may be under way where there is no pace."""
    pieces = asyncio.Queue(maxsize=1 if bytes_per_second else 1024)
    piece_bytes = PACED_PIECE_BYTES if bytes_per_second else PIECE_BYTES

    async def take():
        while data := await reader.read(piece_bytes):
            await pieces.put((time.monotonic() + delay_seconds, data))
        await pieces.put((time.monotonic() + delay_seconds, b""))

    taker = asyncio.create_task(take())
    try:
        while True:
            due, data = await pieces.get()
            await asyncio.sleep(max(0, due - time.monotonic()))
            if not data:
                break
            writer.write(data)
            await writer.drain()
            if bytes_per_second:
                await asyncio.sleep(len(data) / bytes_per_second)
    except ConnectionError:
        pass
    finally:
        taker.cancel()
        writer.close()


async def _serve(options):
    async def connected(reader, writer):
        to_reader, to_writer = await asyncio.open_connection("127.0.0.1", options.to)
        delay_seconds = options.ms / 1000
        await asyncio.sleep(2 * delay_seconds)  # The handshake is a round trip, too.
        await asyncio.gather(_carry(reader, to_writer, delay_seconds, options.pace),
                             _carry(to_reader, writer, delay_seconds, options.pace))

    listener = await asyncio.start_server(connected, "127.0.0.1", options.listen, limit=PIECE_BYTES * 4)
    async with listener:
        await listener.serve_forever()


def main():
    parser = argparse.ArgumentParser(description="Carries connections to another port, late.")
    parser.add_argument("--listen", type=int, required=True)
    parser.add_argument("--to", type=int, required=True)
    parser.add_argument("--ms", type=float, required=True, help="milliseconds in one direction")
    parser.add_argument("--pace", type=float, default=0, help="bytes per second of each connection and direction")
    asyncio.run(_serve(parser.parse_args()))


if __name__ == "__main__":
    main()
