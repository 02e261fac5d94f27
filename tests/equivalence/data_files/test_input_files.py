# SPDX-License-Identifier: Apache-2.0
"""Inputs of models are read from npz, npy, HDF5 and raw files, and from folders of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from circlekit.equivalence.data_files.input_files import iterate_records, read_records
from circlekit.equivalence.data_files.numpy_files import encode_npz
from circlekit.equivalence.data_files.output_files import write_outputs
from circlekit.equivalence.data_files.tensor_files import INPUT
from circlekit.errors import CirclekitError, FileError, FormatError, LimitError, ShapeError
from circlekit.ir.resources.progress import Progress, watched
from circlekit.ir.resources.resource_limits import limited
from circlekit.ir.text import parse_model

ONE_INPUT = parse_model("graph g(%x: f32[1,2]) -> %y { %y = Abs(%x) }")
TWO_INPUTS = parse_model(
    """
    signature "serve" @g (left: %x, right: %n) -> (out: %y)
    graph g(%x: f32[?,2], %n: i32[2]) -> %y {
      %f = Cast(%n) {in_data_type: i32, out_data_type: f32} : f32[2]
      %y = Add(%x, %f) : f32[?,2]
    }
    """
)
X, N = np.array([[1, -2]], np.float32), np.array([3, 4], np.int32)


def hdf5(path: Path, datasets: dict[str, np.ndarray], names: dict[str, str] | None = None) -> None:
    """Write ``datasets``, {path: array}, below the group /value.

    ``names``: {number of a dataset: name}, written as attributes of the group /name.
    """
    with h5py.File(path, "w") as file:
        for place, array in datasets.items():
            file[f"value/{place}"] = array
        for number, name in (names or {}).items():
            file.require_group("name").attrs[number] = name


def numpy_files(folder: Path, **arrays: np.ndarray) -> None:
    folder.mkdir()
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)


def raw_files(folder: Path, **contents: bytes) -> None:
    """Write a file for each of ``contents``; ``__`` in its name stands for a dot."""
    folder.mkdir()
    for name, content in contents.items():
        (folder / name.replace("__", ".")).write_bytes(content)


RAW = X.tobytes(), N.tobytes()
ONE_RECORD: dict[str, Callable[[Path], object]] = {
    "names.npz": lambda path: np.savez(path, n=N, x=X, label=N),
    "compressed.npz": lambda path: np.savez_compressed(path, n=N, x=X),
    "signature.npz": lambda path: np.savez(path, right=N, left=X),
    "numbers.npz": lambda path: np.savez(path, in1=N, in0=X, out0=X),
    "positions.npz": lambda path: np.savez(path, X, N),
    "big_endian.npz": lambda path: np.savez(path, X.astype(">f4"), N.astype(">i4")),
    "names.h5": lambda path: hdf5(path, {"0": N, "1": X}, {"0": "n:0", "1": "x:0"}),
    "order.h5": lambda path: hdf5(path, {"0": X, "1": N}, {"0": "p", "1": "q"}),
    "record.h5": lambda path: hdf5(path, {"0/0": X, "0/1": N}),
    "by_name": lambda path: numpy_files(path, x=X, n=N),
    "by_number": lambda path: numpy_files(path, in0=X, in1=N),
    "by_record": lambda path: raw_files(path, only__npz=encode_npz({"x": X, "n": N})),
}


@pytest.mark.parametrize("name", ONE_RECORD)
def test_one_record(name: str, tmp_path: Path) -> None:
    ONE_RECORD[name](tmp_path / name)
    (record,) = read_records(tmp_path / name, TWO_INPUTS).values()
    assert [a.dtype for a in record] == [np.float32, np.int32]
    assert [a.tolist() for a in record] == [X.tolist(), N.tolist()]


STATIC = parse_model(str(TWO_INPUTS).replace("?", "1"))


@pytest.mark.parametrize(
    "contents",
    [
        {"input0": RAW[0], "input1": RAW[1]},
        {"net__circle__input0": RAW[0], "net__circle__input1": RAW[1]},
        {"x__bin": RAW[0], "n__bin": RAW[1]},
        {"all__bin": RAW[0] + RAW[1]},
    ],
)
def test_raw_files_of_one_record(contents: dict[str, bytes], tmp_path: Path) -> None:
    raw_files(tmp_path / "raw", **contents)
    (record,) = read_records(tmp_path / "raw", STATIC).values()
    assert [a.tolist() for a in record] == [X.tolist(), N.tolist()]


def test_a_number_in_a_file_name_may_belong_to_the_name_of_the_input(tmp_path: Path) -> None:
    model = parse_model("graph g(%x_2: f32[1,2], %x_1: f32[1,2]) -> %y { %y = Sub(%x_2, %x_1) }")
    numpy_files(tmp_path / "names", x_1=X, x_2=-X)
    numpy_files(tmp_path / "numbers", x_0=-X, x_1=X)
    for folder in ("names", "numbers"):
        (record,) = read_records(tmp_path / folder, model).values()
        assert [a.tolist() for a in record] == [(-X).tolist(), X.tolist()]


def test_raw_files_with_all_inputs_are_records(tmp_path: Path) -> None:
    raw_files(tmp_path / "raw", in0=RAW[0] + RAW[1], in1=bytes(16))
    records = read_records(tmp_path / "raw", STATIC)
    assert [[a.tolist() for a in r] for r in records.values()] == [[X.tolist(), [3, 4]], [[[0, 0]], [0, 0]]]


SEVERAL = np.arange(6, dtype=np.float32).reshape(3, 1, 2)
SEVERAL_RECORDS: dict[str, Callable[[Path], object]] = {
    "stacked.npy": lambda path: np.save(path, SEVERAL),
    "stacked.npz": lambda path: np.savez(path, anything=SEVERAL),
    "fortran.npy": lambda path: np.save(path, np.asfortranarray(SEVERAL)),
    "records.h5": lambda path: hdf5(path, {f"{n}/0": SEVERAL[n] for n in range(3)}),
    "raw.h5": lambda path: hdf5(path, {f"{n}/0": SEVERAL[n].reshape(-1).view(np.uint8) for n in range(3)}),
    "numpy": lambda path: numpy_files(path, x2=SEVERAL[1], x10=SEVERAL[2], x1=SEVERAL[0]),
    "raw": lambda path: raw_files(path, **{f"{n}__bin": SEVERAL[n].tobytes() for n in range(3)}),
}


@pytest.mark.parametrize("name", SEVERAL_RECORDS)
def test_several_records(name: str, tmp_path: Path) -> None:
    SEVERAL_RECORDS[name](tmp_path / name)
    records = read_records(tmp_path / name, ONE_INPUT)
    assert [record[0].tolist() for record in records.values()] == SEVERAL.tolist()
    labels = {"numpy": ["x1", "x2", "x10"], "raw": ["0", "1", "2"]}
    assert list(records) == labels.get(name, ["record_0", "record_1", "record_2"])


def test_an_empty_path_is_not_the_working_directory() -> None:
    for read in (read_records, lambda path, model: list(iterate_records(path, model))):
        with pytest.raises(FileError, match="a file without a name cannot be read"):
            read("", ONE_INPUT)


WRONG: dict[str, tuple[Callable[[Path], object], type[CirclekitError], str]] = {
    "missing.npz": (lambda _: None, FileError, "missing.npz: no such file or folder"),
    "record.h5": (
        lambda path: hdf5(path, {"0/0": X, "1/0": X.T}),
        ShapeError,
        "record.h5: record 1: input %x: expected f32[1,2], got f32[2,1]",
    ),
    "more.h5": (
        lambda path: hdf5(path, {"0/0": X, "0/1": X}),
        ShapeError,
        "record 0: expected arrays for the inputs %x: f32[1,2], named like these or in0, in1...; got 0, 1",
    ),
    "names.npz": (
        lambda path: np.savez(path, a=X, b=X),
        ShapeError,
        "names.npz: expected arrays for the inputs %x: f32[1,2], named like these or in0, in1...; got a, b",
    ),
    "twice.npz": (
        lambda path: path.write_bytes(encode_npz({"x": X, "x:0": 2 * X})),
        ShapeError,
        "twice.npz: expected arrays for the inputs %x: f32[1,2], named like these or in0, in1...; got x, x:0",
    ),
    "twice.h5": (
        lambda path: hdf5(path, {"0": X, "1": X}, {"0": "in0", "1": "input0"}),
        ShapeError,
        "expected arrays for the inputs %x: f32[1,2], named like these or in0, in1...; got in0, input0",
    ),
    "none.npy": (
        lambda path: np.save(path, SEVERAL[:0]),
        ShapeError,
        "none.npy: input %x: expected at least one record, got none",
    ),
    "raw.bin": (lambda path: path.write_bytes(bytes(12)), ShapeError, "raw.bin holds 3 elements"),
    "empty": (lambda path: path.mkdir(), FileError, "in it, found none"),
    "damaged.npz": (lambda path: path.write_bytes(b"PK\3\4"), FormatError, "not a readable npz file"),
    "objects.npy": (lambda path: np.save(path, np.array([{}])), FormatError, "holds Python objects"),
    "text.npy": (lambda path: path.write_text("1, 2"), FormatError, "not a readable npy file"),
}


@pytest.mark.parametrize("name", WRONG)
def test_unusable_inputs(name: str, tmp_path: Path) -> None:
    write, error, sentence = WRONG[name]
    write(tmp_path / name)
    with pytest.raises(error) as caught:
        read_records(tmp_path / name, ONE_INPUT)
    assert sentence in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path / name))


@pytest.mark.parametrize("in_model", ["", ":0"])
@pytest.mark.parametrize("in_file", ["", ":0"])
def test_a_number_of_an_output_in_a_name_does_not_count(in_model: str, in_file: str, tmp_path: Path) -> None:
    """TensorFlow names the first output of an operation ``left:0``."""
    model = parse_model(str(TWO_INPUTS))
    (signature,) = model.signatures
    signature.inputs = {name + in_model: value for name, value in signature.inputs.items()}
    (tmp_path / "record.npz").write_bytes(encode_npz({f"right{in_file}": N, f"left{in_file}": X}))
    (record,) = read_records(tmp_path / "record.npz", model).values()
    assert [a.tolist() for a in record] == [X.tolist(), N.tolist()]


def test_one_array_is_not_enough_for_two_inputs(tmp_path: Path) -> None:
    np.savez(tmp_path / "one.npz", X)
    with pytest.raises(ShapeError, match="expected arrays for the inputs %x"):
        read_records(tmp_path / "one.npz", TWO_INPUTS)


def test_bytes_of_another_type_are_no_raw_data(tmp_path: Path) -> None:
    model = parse_model("graph g(%x: i8[4]) -> %y { %y = Abs(%x) }")
    hdf5(tmp_path / "x.h5", {"0/0": np.arange(4, dtype=np.uint8)})
    with pytest.raises(ShapeError, match=r"expected i8\[4\], got u8\[4\]"):
        read_records(tmp_path / "x.h5", model)


def test_an_empty_array_of_another_type_is_a_record_if_the_rank_is_unknown(tmp_path: Path) -> None:
    model = parse_model("graph g(%x: f32[*]) -> %y { %y = Abs(%x) }")
    hdf5(tmp_path / "x.h5", {"0/0": np.zeros((0, 3), np.float32)})
    ((array,),) = read_records(tmp_path / "x.h5", model).values()
    assert array.shape == (0, 3)
    hdf5(tmp_path / "x.h5", {"0/0": np.zeros((0, 3))})
    with pytest.raises(ShapeError, match=r"expected f32\[\*\], got f64\[0,3\]"):
        read_records(tmp_path / "x.h5", model)


THREE_INPUTS = parse_model("graph g(%a: i8[3], %b: f32[2], %c: i8[]) -> %a, %b, %c {}")
UNSIZED = parse_model("graph g(%a: i8[3], %b: f32[?]) -> %a, %b {}")


def test_a_raw_file_holds_all_inputs_in_order(tmp_path: Path) -> None:
    content = bytes([1, 2, 3]) + np.array([4.5, -1], "<f4").tobytes() + bytes([7])
    (tmp_path / "x.bin").write_bytes(content)
    (record,) = read_records(tmp_path / "x.bin", THREE_INPUTS).values()
    assert [a.tolist() for a in record] == [[1, 2, 3], [4.5, -1], 7]
    for wrong in (content[:-1], content + b"\0", b""):
        (tmp_path / "x.bin").write_bytes(wrong)
        with pytest.raises(ShapeError, match=rf"together 12 bytes, got {len(wrong)} bytes"):
            read_records(tmp_path / "x.bin", THREE_INPUTS)
    (tmp_path / "x.bin").write_bytes(bytes(3))
    with pytest.raises(ShapeError, match=r"expected inputs of known sizes .*%b: f32"):
        read_records(tmp_path / "x.bin", UNSIZED)


def test_records_in_folders_have_the_names_of_files(tmp_path: Path) -> None:
    """Two files of the same stem keep their extensions; several records in a file get numbers."""
    np.save(tmp_path / "a.npy", X)
    np.savez(tmp_path / "a.npz", X)
    np.save(tmp_path / "b.npy", np.stack([X, X]))
    (tmp_path / "c").mkdir()
    np.save(tmp_path / "c/d.npy", X)
    np.save(tmp_path / "c/e.npy", X)
    (tmp_path / ".hidden").write_bytes(b"no record")
    labels = [*read_records(tmp_path, ONE_INPUT)]
    assert labels == ["a.npy", "a.npz", "b.0", "b.1", "c.d", "c.e"]


def test_records_with_equal_labels_are_all_kept(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", np.stack([X, 2 * X]))
    np.savez(tmp_path / "a.0.npz", 3 * X)
    records = read_records(tmp_path, ONE_INPUT)
    assert sorted(records) == ["a.0", "a.0_2", "a.1"]
    assert sorted(record[0][0, 0] for record in records.values()) == [1, 2, 3]


@pytest.mark.parametrize("dtype", ["bf16", "i4", "i2"])
@pytest.mark.parametrize("array", [np.zeros(2), np.zeros(2, np.float32), np.zeros(2, np.int8)])
def test_a_dtype_that_numpy_lacks_is_refused(dtype: str, array: np.ndarray, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", array)
    model = parse_model(f"graph g(%x: {dtype}[2]) -> %x {{ }}")
    with pytest.raises(ShapeError, match=rf"x.npy: input %x is {dtype}, which numpy does not have"):
        read_records(tmp_path / "x.npy", model)


def test_a_recorded_folder_has_inputs_in_a_file_of_their_own(tmp_path: Path) -> None:
    """If a folder has the file ``INPUT``, its other files hold outputs; folders in it are records."""
    hdf5(tmp_path / INPUT, {"0": X})
    np.save(tmp_path / "output.npy", X)
    (tmp_path / "more").mkdir()
    hdf5(tmp_path / "more" / INPUT, {"0": 2 * X})
    records = read_records(tmp_path, ONE_INPUT)
    assert [record[0].tolist() for record in records.values()] == [X.tolist(), (2 * X).tolist()]


@pytest.mark.parametrize("name", ["x.npy", "x.npz", "x.h5", "x.bin"])
@pytest.mark.parametrize("count", [1, 3])
def test_records_one_by_one(name: str, count: int, tmp_path: Path) -> None:
    """All records of a file but the first are added to the total of the progress."""
    arrays = np.arange(2 * count, dtype=np.float32).reshape(count, 1, 2)
    if name == "x.h5":
        hdf5(tmp_path / name, {f"{n}/0": array for n, array in enumerate(arrays)})
    elif name == "x.bin":
        (tmp_path / name).write_bytes(arrays[0].tobytes())
    else:
        (np.save if name == "x.npy" else np.savez)(tmp_path / name, arrays)

    class Counted(Progress):
        more = 0

        def expect(self, amount: int) -> None:
            self.more += amount

    with watched(Counted()) as counted:
        records = list(iterate_records(tmp_path / name, ONE_INPUT))
    expected = 1 if name == "x.bin" else count
    assert [record[0].tolist() for record in records] == arrays[:expected].tolist()
    assert counted.more == expected - 1


def test_more_files_than_inputs_are_records(tmp_path: Path) -> None:
    """Folders are records, too, even if their names are those of the inputs."""
    numpy_files(tmp_path / "files", x=X, n=N, z=N)  # three records, in each of which an input is missing
    with pytest.raises(ShapeError, match="expected arrays for the inputs"):
        read_records(tmp_path / "files", TWO_INPUTS)
    (tmp_path / "folders").mkdir()
    for name in ("x", "n"):
        numpy_files(tmp_path / "folders" / name, x=X, n=N)
    assert [*read_records(tmp_path / "folders", TWO_INPUTS)] == ["n", "x"]


@pytest.mark.parametrize(
    ("array", "got", "is_helped"),
    [
        (X.astype(float), "f64[1,2]", False),
        (X[0], "f32[2]", False),
        (SEVERAL[:0, 0, :1], "f32[0,1]", True),
        (SEVERAL[..., 0], "f32[3,1]", True),
        (SEVERAL[:, 0], "f32[3,2]", True),
        (SEVERAL[:, :, :1], "f32[3,1,1]", True),
    ],
)
def test_the_shape_of_several_records_is_stated_if_the_rank_permits_records(
    array: np.ndarray, got: str, is_helped: bool, tmp_path: Path
) -> None:
    path = tmp_path / "x.npy"
    np.save(path, array)
    with pytest.raises(ShapeError) as caught:
        read_records(path, ONE_INPUT)
    help = "; N records in an npz or npy file have the shape [N,1,2], the same N for each input"
    message = f"{path}: input %x: expected f32[1,2], got {got}"
    assert str(caught.value) == message + (help if is_helped else "")


@pytest.mark.parametrize("array", [np.zeros((2, 4), np.uint8), np.zeros(8, np.int32), np.zeros(7, np.uint8)])
def test_only_a_vector_of_all_bytes_is_raw(array: np.ndarray, tmp_path: Path) -> None:
    hdf5(tmp_path / "x.h5", {"0/0": array})
    with pytest.raises(ShapeError, match="record 0: input %x: expected f32"):
        read_records(tmp_path / "x.h5", ONE_INPUT)


def test_arrays_of_different_lengths_are_no_records(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=np.stack([X, X]), n=np.stack([N, N, N]))
    with pytest.raises(ShapeError, match=r"x.npz: input %x: expected f32\[1,2\], got f32\[2,1,2\]"):
        read_records(tmp_path / "x.npz", STATIC)
    np.savez(tmp_path / "x.npz", x=np.stack([X, X]), n=N)
    with pytest.raises(ShapeError, match=r"x.npz: input %x"):
        read_records(tmp_path / "x.npz", STATIC)


def test_strings(tmp_path: Path) -> None:
    model = parse_model("graph g(%s: str[2], %x: f32[1]) -> %s, %x {}")
    texts, number = np.array(["a", "bc"]), np.ones(1, np.float32)
    for given in (np.array([b"a\0", b"bc"]), texts):
        np.savez(tmp_path / "x.npz", s=given, x=number)
        (record,) = read_records(tmp_path / "x.npz", model).values()
        assert record[0].tolist() == [b"a", b"bc"]
    for wrong in ({"s": np.zeros(2), "x": number}, {"s": texts, "x": np.array(["1"])}):
        np.savez(tmp_path / "x.npz", **wrong)
        with pytest.raises(ShapeError, match=r"x.npz: input %"):
            read_records(tmp_path / "x.npz", model)


@pytest.mark.parametrize("number", [0xD800, 0x110000])
def test_strings_that_are_not_unicode(number: int, tmp_path: Path) -> None:
    np.save(tmp_path / "s.npy", np.array([ord("a"), number], np.uint32).view("U1"))
    with pytest.raises(FormatError, match=r"s\.npy: input %s: expected strings of Unicode characters"):
        read_records(tmp_path / "s.npy", parse_model("graph g(%s: str[2]) -> %s {}"))


@pytest.mark.parametrize("texts", [[b"a\0b", "\xe9".encode(), b"", b"\xff"], [], [b""]])
def test_strings_in_hdf5_that_circlekit_wrote(texts: list[bytes], tmp_path: Path) -> None:
    size = len(texts)
    model = parse_model(f"graph g(%s: str[{size}], %x: f32[1]) -> %s, %x {{}}")
    arrays = [np.array(texts, object), np.ones(1, np.float32)]
    for records in ({"": arrays}, {"a": arrays, "b": [arrays[0][::-1], arrays[1]]}):
        write_outputs(tmp_path / "x.h5", ["s", "x"], records)
        found = list(read_records(tmp_path / "x.h5", model).values())
        assert [record[0].tolist() for record in found] == [given[0].tolist() for given in records.values()]
        assert all(record[0].dtype == object for record in found)


def test_strings_in_hdf5_that_do_not_fit(tmp_path: Path) -> None:
    """Strings of one byte are not the raw bytes of a number; strings of variable length are not read."""
    model = parse_model("graph g(%x: f32[1]) -> %x {}")
    write_outputs(tmp_path / "x.h5", ["x"], {"": [np.array([b"a", b"b", b"c", b"d"], object)]})
    with pytest.raises(ShapeError, match=r"input %x: expected f32\[1\], got "):
        read_records(tmp_path / "x.h5", model)
    with h5py.File(tmp_path / "any.h5", "w") as file:
        file.create_dataset("value/0", data=np.array(["a"], object), dtype=h5py.string_dtype())
    with pytest.raises(FormatError, match="/value/0 is not a dataset of numbers, or of strings of a fixed"):
        read_records(tmp_path / "any.h5", parse_model("graph g(%s: str[1]) -> %s {}"))


def test_many_strings_are_refused_by_the_memory_limit(tmp_path: Path) -> None:
    np.save(tmp_path / "s.npy", np.zeros(1 << 16, "S1"))
    with limited(memory=1 << 20), pytest.raises(LimitError, match="65536 strings"):
        read_records(tmp_path / "s.npy", parse_model("graph g(%s: str[?]) -> %s {}"))
