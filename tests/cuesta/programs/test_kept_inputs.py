"""Inputs come back from files as they were; what is damaged is told with its file and argument."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch

from cuesta.programs.inputs_of import InputsError
from cuesta.programs.kept_inputs import read_inputs, write_inputs

DTYPES = sorted(
    {
        one
        for one in vars(torch).values()
        if isinstance(one, torch.dtype) and re.match(r"torch\.(u?int(8|16|32|64)|b?float|complex|bool)", str(one))
    },
    key=str,
)


def bytes_of(tensor: torch.Tensor) -> bytes:
    """All of its memory, from the element with index 0 to the last."""
    whole = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())
    begin = tensor.storage_offset() * tensor.element_size()
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)) + 1
    return whole[begin : begin + last * tensor.element_size()].numpy().tobytes()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype(tmp_path: Path, dtype: torch.dtype) -> None:
    memory = torch.randint(0, 256, (64 * dtype.itemsize,), dtype=torch.uint8)
    if dtype is torch.bool:
        memory %= 2
    tensor = memory.view(dtype)[: 4 * 6].view(4, 6).t()
    (read,) = read_inputs(write_inputs([tensor], tmp_path / "inputs")).values
    assert (read.dtype, read.shape, read.stride()) == (dtype, tensor.shape, tensor.stride())
    assert bytes_of(read) == bytes_of(tensor)


def test_numbers_and_odd_tensors(tmp_path: Path) -> None:
    complex_one = torch.randn(3, dtype=torch.complex64)
    given: list[Any] = [
        torch.tensor(2.5),
        torch.empty(0, 4),
        torch.ones(3)[1:].expand(5, 2),
        2**80,
        -7,
        True,
        float("inf"),
        -0.0,
        None,
        complex_one.conj(),
        torch.ops.aten._neg_view.default(torch.randn(3)),
        torch.nn.Parameter(torch.randn(2, 2)),
    ]
    kept = read_inputs(write_inputs(given, tmp_path / "x", weights=[11]))
    assert kept.weights == {11}
    for value, read in zip(given, kept.values, strict=True):
        if isinstance(value, torch.Tensor):
            assert torch.equal(read, value.detach())
            assert (read.is_conj(), read.is_neg()) == (value.is_conj(), value.is_neg())
            assert read.stride() == value.stride()
        else:
            assert (type(read), repr(read)) == (type(value), repr(value))


def test_what_shared_memory_shares_it_again(tmp_path: Path) -> None:
    base = torch.arange(20.0)
    a, b, c = read_inputs(write_inputs([base[2:6], base[4:8], base.clone()], tmp_path / "inputs")).values
    a[2] = -1.0
    assert b[0] == -1.0
    assert c[4] == 4.0
    assert a.storage_offset() == 2
    assert numpy.load(tmp_path / "inputs" / "memory_0.npy", allow_pickle=False).size == 32  # as far as anyone reaches


def test_a_folder_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(numpy, "save", fails)
    with pytest.raises(OSError, match="no space"):
        write_inputs([torch.ones(2)], tmp_path / "inputs")
    assert os.listdir(tmp_path) == []
    monkeypatch.undo()
    write_inputs([1], tmp_path / "inputs")
    with pytest.raises(InputsError, match="is there already"):
        write_inputs([2], tmp_path / "inputs")
    assert read_inputs(tmp_path).values == [1]


def test_an_object_is_told_when_it_is_read(tmp_path: Path) -> None:
    write_inputs([1, object(), torch.eye(2).to_sparse()], tmp_path / "inputs")
    with pytest.raises(InputsError, match="argument 1 was a object, which no file holds"):
        read_inputs(tmp_path / "inputs")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dtype": "float31"}, "argument 0: torch has no dtype 'float31'"),
        ({"dtype": "load"}, "argument 0: torch has no dtype 'load'"),
        ({"sizes": [4, 100]}, "argument 0 needs 436 bytes of its memory, which has 48"),
        ({"sizes": [4]}, "1 sizes, but 2 strides"),
        ({"strides": [-1, 1]}, "are no sizes"),
        ({"offset": 2**62}, "bytes of its memory"),
        ({"memory": 7}, "memory_7.npy cannot be read"),
        ({"memory": "../x"}, "are no sizes"),
        ({"kind": "code"}, "unknown kind, 'code'"),
        ({"kind": "int"}, "argument 0 is damaged: KeyError"),
    ],
)
def test_what_is_damaged(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    index = write_inputs([torch.ones(4, 3)], tmp_path / "inputs") / "inputs.json"
    said = json.loads(index.read_text())
    said["arguments"][0].update(change)
    index.write_text(json.dumps(said))
    with pytest.raises(InputsError, match=message) as caught:
        read_inputs(tmp_path / "inputs")
    assert str(index) in str(caught.value)


def test_what_is_no_folder_of_inputs(tmp_path: Path) -> None:
    with pytest.raises(InputsError, match="holds no inputs"):
        read_inputs(tmp_path)
    (tmp_path / "inputs.json").write_text("{")
    with pytest.raises(InputsError, match=r"inputs.json cannot be read"):
        read_inputs(tmp_path)
    (tmp_path / "inputs.json").write_text('{"cuesta_inputs": 9, "arguments": []}')
    with pytest.raises(InputsError, match="format 1"):
        read_inputs(tmp_path)


def test_no_pickle_is_read(tmp_path: Path) -> None:
    folder = write_inputs([torch.ones(2)], tmp_path / "inputs")
    numpy.save(folder / "memory_0.npy", numpy.array([object()], dtype=object), allow_pickle=True)
    with pytest.raises(InputsError, match=r"memory_0\.npy cannot be read: .*pickle"):
        read_inputs(folder)
    (folder / "memory_0.npy").write_bytes((folder / "memory_0.npy").read_bytes()[:20])
    with pytest.raises(InputsError, match=r"memory_0\.npy cannot be read"):
        read_inputs(folder)
