# SPDX-License-Identifier: Apache-2.0
"""npy and npz files: numpy reads what circlekit writes; damaged and hostile files are refused."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from circlekit.equivalence.data_files import numpy_files
from circlekit.equivalence.data_files.numpy_files import encode_npz, read_npy, read_npz
from circlekit.errors import CirclekitError, FormatError, LimitError, UnsupportedError
from circlekit.ir.resources.resource_limits import limited
from circlekit.ir.value import Array

X = np.array([[1, -2]], np.float32)
FILES: list[tuple[str, Callable[..., None], Callable[[Path], object]]] = [
    ("x.npz", np.savez_compressed, read_npz),
    ("x.npy", np.save, read_npy),
]
"""(name of a file, function that writes it, function that reads it)."""


def test_truncated_numpy_files_are_refused(tmp_path: Path) -> None:
    for name, save, read in FILES:
        save(tmp_path / name, X)
        content = (tmp_path / name).read_bytes()
        for size in range(0, len(content), 11):
            (tmp_path / name).write_bytes(content[:size])
            with pytest.raises(FormatError):
                read(tmp_path / name)


def test_a_damaged_byte_of_numpy_files_is_refused_or_read(tmp_path: Path) -> None:
    refused = 0
    for name, save, read in FILES:
        save(tmp_path / name, X)
        content = (tmp_path / name).read_bytes()
        for place in range(0, len(content), 7):
            for byte in b"(\xff":
                (tmp_path / name).write_bytes(content[:place] + bytes([byte]) + content[place + 1 :])
                try:
                    read(tmp_path / name)
                except CirclekitError:  # any other exception fails the test
                    refused += 1
    assert refused > 50


def test_a_small_file_cannot_claim_much_memory(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "x.npz", np.zeros(1 << 22, np.float32))
    with limited("1M"), pytest.raises(LimitError, match=r"x.npz: arr_0.npy would take"):
        read_npz(tmp_path / "x.npz")


def test_npz_files_are_those_of_numpy(tmp_path: Path) -> None:
    arrays: dict[str, Array] = {
        "file": X,
        "a/b": np.asfortranarray(np.arange(6).reshape(3, 1, 2)),
        "scalar": np.array(3),
        "text": np.array([b"a"], object),
    }
    (tmp_path / "x.npz").write_bytes(encode_npz(arrays))
    with np.load(tmp_path / "x.npz") as found:
        assert {name: found[name].tolist() for name in found} == {n: a.tolist() for n, a in arrays.items()}
    with zipfile.ZipFile(tmp_path / "x.npz") as archive:
        assert archive.testzip() is None


def test_headers_of_versions_1_and_2_and_empty_arrays(tmp_path: Path) -> None:
    for version in ((1, 0), (2, 0)):
        for array in (X, X[:0], X.T):
            with (tmp_path / "x.npy").open("wb") as file:
                np.lib.format.write_array(file, array, version)
            assert read_npy(tmp_path / "x.npy").tolist() == array.tolist()
            assert read_npy(tmp_path / "x.npy").shape == array.shape


def test_a_wrong_checksum_of_plain_data_is_damage(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", X)
    content = bytearray((tmp_path / "x.npz").read_bytes())
    content[content.find(X.tobytes())] ^= 1
    (tmp_path / "x.npz").write_bytes(content)
    with pytest.raises(FormatError, match=r"arr_0.npy is damaged"):
        read_npz(tmp_path / "x.npz")


def test_an_npz_file_without_members_may_have_a_comment(tmp_path: Path) -> None:
    for comment in (b"", b"c" * 100, b"c" * 65535):
        with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
            archive.comment = comment
        assert read_npz(tmp_path / "x.npz") == []


def test_big_endian_arrays_are_copied_within_the_memory_limit(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(1000, dtype=">f8"))
    np.savez(tmp_path / "x.npz", a=np.arange(1000, dtype=">f8"), b=np.arange(1000, dtype=">f8"))
    assert read_npy(tmp_path / "x.npy").tolist() == list(range(1000))
    with limited(7999), pytest.raises(LimitError, match=r"x.npy would take"):
        read_npy(tmp_path / "x.npy")
    with limited(15999), pytest.raises(LimitError, match=r"x.npz: b.npy would take"):
        read_npz(tmp_path / "x.npz")


def test_names_that_a_zip_file_cannot_hold_are_escaped(tmp_path: Path) -> None:
    names = ["\udcff", "a\0b", "a", "\u00e9", "/x"]
    (tmp_path / "x.npz").write_bytes(encode_npz(dict.fromkeys(names, X)))
    assert [name for name, _ in read_npz(tmp_path / "x.npz")] == [r"\udcff", r"a\x00b", "a", "\u00e9", "/x"]


def test_two_names_with_the_same_escapes_are_refused() -> None:
    """With one name for both, a reader would see only the second array."""
    with pytest.raises(UnsupportedError, match=r"the names 'a\\x00' and 'a\\\\x00' are the same"):
        encode_npz({"a\0": X, r"a\x00": X})


def test_a_name_too_long_for_a_zip_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.npz").write_bytes(encode_npz({"a" * 65531: X}))
    assert [len(name) for name, _ in read_npz(tmp_path / "x.npz")] == [65531]
    with pytest.raises(UnsupportedError, match=r"expected at most 65535 bytes with .npy, got 65536"):
        encode_npz({"a" * 65532: X})


@pytest.mark.parametrize("shape", ["(-1,)", "(-1, 2)", "(True,)"])
def test_a_shape_with_other_than_sizes_is_damage(shape: str, tmp_path: Path) -> None:
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}".encode()
    content = b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header + bytes(8)
    (tmp_path / "x.npy").write_bytes(content)
    with pytest.raises(FormatError, match="expected a shape of integers of at least 0, got "):
        read_npy(tmp_path / "x.npy")


def test_a_member_beyond_every_file_is_damage(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("x.npy", b"")
        archive.infolist()[0].header_offset = 1 << 63
    with pytest.raises(FormatError, match=r"x.npz is not a readable npz file"):
        read_npz(tmp_path / "x.npz")


def test_a_deeply_nested_header_is_damage(tmp_path: Path) -> None:
    header = b"-" * 9000 + b"1"
    (tmp_path / "x.npy").write_bytes(b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header)
    with pytest.raises(FormatError, match=r"x.npy is not a readable npy file"):
        read_npy(tmp_path / "x.npy")


def test_a_defect_of_the_reader_is_not_called_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def defect(*_: object) -> None:
        raise TypeError("a defect")

    np.savez_compressed(tmp_path / "x.npz", X)
    monkeypatch.setattr(numpy_files, "count_memory", defect)
    with pytest.raises(TypeError, match="a defect"):
        read_npz(tmp_path / "x.npz")
