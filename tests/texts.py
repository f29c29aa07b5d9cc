"""The small trace as text, packed in every way and at fault, and what is read of it."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import tarfile
import zipfile

import zstandard

from roofline.trace.readers import chrome, decode, source, spread
from traces import small


def rows(found):
    """What the device did, as plain values."""
    gpu = found.gpu
    names = [found.names[at] for at in gpu.name.tolist()]
    return list(
        zip(
            names, gpu.start.tolist(), gpu.duration.tolist(), gpu.stream.tolist(), gpu.correlation.tolist(), strict=True
        )
    )


GEMM, NCCL = "ampere_sgemm_128x64_tn", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)"
SMALL = [(GEMM, 1_000_000, 40_000, 7, 11), (GEMM, 1_060_000, 20_000, 7, 12), (NCCL, 1_080_000, 20_000, 20, 13)]


def noted(found, words: str) -> bool:
    return any(words in each for each in found.warnings)


def broken(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new, 1)


def small_pieces(monkeypatch, size):
    """Cut everything into pieces of this size, and let workers have them from the first byte on."""
    places = (
        (source, "BLOCK"),
        (source, "HEAD"),
        (chrome, "_PIECE"),
        (chrome, "RANGE"),
        (spread, "RANGE"),
        (decode, "_PART"),
    )
    for module, name in places:
        monkeypatch.setattr(module, name, size)
    monkeypatch.setattr(spread, "_ALONE", 0)
    monkeypatch.setattr(chrome, "_RANGES", 0)


PLAIN = json.dumps(small())


def tarred(data: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, content in (("readme.txt", b"no"), ("run/._trace.json", b"no"), ("run/trace.json", data)):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


def zipped(data: bytes, *names: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names or ("trace.json",):
            archive.writestr(name, data)
    return out.getvalue()


TEXT = json.dumps(small()).encode()
PACKED = {
    "plain": TEXT,
    "gzip": gzip.compress(TEXT),
    "two members": gzip.compress(TEXT[:500]) + gzip.compress(TEXT[500:]),
    "padded": gzip.compress(TEXT) + b"\0" * 512,
    "zstd": zstandard.compress(TEXT),
    "bzip2": bz2.compress(TEXT),
    "xz": lzma.compress(TEXT),
    "zip": zipped(TEXT),
    "tar": tarred(TEXT),
    "tar.gz": gzip.compress(tarred(TEXT)),
    "gzip in zip": zipped(gzip.compress(TEXT), "trace.json.gz"),
    "utf-8 mark": b"\xef\xbb\xbf" + TEXT,
    "utf-16": TEXT.decode().encode("utf-16"),
    "utf-16 without a mark": TEXT.decode().encode("utf-16-le"),
    "utf-32": TEXT.decode().encode("utf-32"),
    "gzip twice": gzip.compress(gzip.compress(TEXT)),
    "utf-16 in gzip": gzip.compress(TEXT.decode().encode("utf-16-be").join([b"\xfe\xff", b""])),
}
