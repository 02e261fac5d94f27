# SPDX-License-Identifier: Apache-2.0
"""Pipelines: the only place where the order of passes is written."""

from __future__ import annotations

from collections.abc import Iterable

PIPELINES: dict[str, tuple[str, ...]] = {
    "O1": (
        "resolve_customop_add",
        "resolve_customop_batchmatmul",
        "resolve_customop_matmul",
        "resolve_customop_max_pool_with_argmax",
        "resolve_customop_splitv",
        "fold_constants",
        "fold_add_v2",
        "fold_cast",
        "fold_densify",
        "fold_dequantize",
        "fold_dwconv",
        "fold_fully_connected",
        "fold_gather",
        "fold_mul",
        "fold_reshape",
        "fold_shape",
        "fold_sparse_to_dense",
        "fold_squeeze",
        "remove_identity",
        "remove_unnecessary_add",
        "remove_unnecessary_cast",
        "remove_unnecessary_div",
        "remove_unnecessary_mul",
        "remove_unnecessary_pad",
        "remove_unnecessary_slice",
        "remove_unnecessary_split",
        "remove_unnecessary_strided_slice",
        "remove_unnecessary_reshape",
        "remove_unnecessary_transpose",
        "remove_redundant_activation",
        "remove_redundant_reshape",
        "remove_redundant_transpose",
        "optimize_layout",
        "fuse_rmsnorm",
        "fuse_mul_with_rmsnorm",
        "fuse_rope",
        "fuse_instnorm",
        "fuse_hardswish",
        "remove_reshape_around_batch_matmul",
        "forward_reshape_to_unaryop",
        "fuse_transpose_with_batch_matmul",
        "fuse_slice_with_tconv",
        "fuse_batchnorm_with_conv",
        "fuse_batchnorm_with_dwconv",
        "fuse_batchnorm_with_tconv",
        "fuse_mul_with_conv",
        "fuse_mul_with_dwconv",
        "fuse_mul_with_tconv",
        "fuse_mul_with_fullyconnected",
        "fuse_add_with_conv",
        "fuse_add_with_dwconv",
        "fuse_add_with_tconv",
        "fuse_add_with_fully_connected",
        "fuse_activation_function",
        "fuse_transpose_with_mean",
        "fuse_reshape_with_mean",
        "common_subexpression_elimination",
        "remove_duplicate_const",
        "remove_dead",
    ),
}
"""Passes by name of the pipeline, in the order in which a round runs them."""


def in_order(names: Iterable[str]) -> list[str]:
    """``names``, each once: first those of O1 in its order, then the others by the alphabet."""
    rank = {name: index for index, name in enumerate(PIPELINES["O1"])}
    return sorted(set(names), key=lambda name: (rank.get(name, len(rank)), name))
