"""Arrays in an .npz file, read without running code, and without believing what the file says about its size."""

import io
import math
import zipfile
import zlib
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

from durm._memory import check_fits
from durm.errors import InputError

LARGEST_RATIO = 1032
"""To how many bytes deflate can expand one, at the most."""
SLACK = 1024


def read_npz(file: Path | bytes) -> dict[str, np.ndarray]:
    """The arrays of an .npz file, or of its content.

    The header of each array is compared with the bytes that are there before anything is allocated.

    Raises:
        ValueError: if it is damaged or no .npz file.
    """
    try:
        opened = io.BytesIO(file) if isinstance(file, bytes) else file.open("rb")
        with opened as content, zipfile.ZipFile(content) as archive:
            there = content.seek(0, io.SEEK_END)
            needed = sum(_checked_size(archive, member, there) for member in archive.infolist())
            check_fits("what it holds", needed)
            content.seek(0)
            with np.load(content, allow_pickle=False) as arrays:
                return dict(arrays)
    except InputError as error:
        raise ValueError(str(error)) from None
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error, MemoryError, NotImplementedError, RuntimeError) as error:
        raise ValueError(str(error) or type(error).__name__) from None  # the last two: unknown methods, encrypted


def _checked_size(archive: zipfile.ZipFile, member: zipfile.ZipInfo, there: int) -> int:
    """The bytes that a member takes in memory."""
    if member.compress_size > there or member.file_size > LARGEST_RATIO * member.compress_size + SLACK:
        raise ValueError(f"{member.filename} claims {member.file_size:,} bytes, which are not in the file")
    with archive.open(member) as stream:
        if stream.read(len(npy.MAGIC_PREFIX)) != npy.MAGIC_PREFIX:
            return member.file_size  # no array; it is read as bytes
    with archive.open(member) as stream:
        version = npy.read_magic(stream)
        read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, _, dtype = read_header(stream)
        needed, left = math.prod(shape) * dtype.itemsize, member.file_size - stream.tell()
        if min(shape, default=0) < 0 or (needed > left and not dtype.hasobject):
            raise ValueError(
                f"{member.filename} claims to hold {dtype} of shape {shape}, {needed:,} bytes, and has {left:,}"
            )
    return needed
