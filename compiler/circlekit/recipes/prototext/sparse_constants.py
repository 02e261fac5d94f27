# SPDX-License-Identifier: Apache-2.0
"""Sparse constants of recipes: the last dimension compressed, all before it dense."""

from __future__ import annotations

import numpy as np

from circlekit.io.schema import Tree
from circlekit.ir.value import Array


def sparse_tree(dense: Array) -> tuple[Tree, bytes]:
    """Return the table SparsityParameters and the data of ``dense``, an array of rank 1 or more.

    Elements whose bits are all zero are left out; -0.0 is stored.
    """
    bits = dense.view(f"u{dense.dtype.itemsize}")
    kept = bits != 0
    columns = dense.shape[-1]
    rows = kept.reshape(-1, columns) if columns else np.zeros((dense.size, 0), bool)
    segments = np.concatenate([[0], np.cumsum(rows.sum(axis=1))]).astype(np.int32)
    indices = np.nonzero(rows)[1].astype(np.int32)
    dimensions: list[Tree] = [{"format": "DENSE", "dense_size": size} for size in dense.shape[:-1]]
    dimensions.append(
        {
            "format": "SPARSE_CSR",
            "array_segments": {"": "Int32Vector", "values": segments},
            "array_indices": {"": "Int32Vector", "values": indices},
        }
    )
    tree = {"traversal_order": list(range(dense.ndim)), "block_map": [], "dim_metadata": dimensions}
    return tree, dense[kept].tobytes()


def stored_count(sparsity: Tree) -> int:
    """Return the number of elements that a file stores for a constant with these parameters."""
    count = 1
    for dimension in sparsity["dim_metadata"]:
        if dimension["format"] == "DENSE":
            count *= dimension["dense_size"]
        else:
            count = len(dimension.get("array_indices", {}).get("values", ()))
    return count
