# SPDX-License-Identifier: Apache-2.0
"""Pipelines: which passes they run, in which order, and why.  No other file orders the passes of a pipeline.

A round runs the phases of a pipeline one after the other, each until none of its passes changes the model.
Rounds repeat until one of them changes nothing.  A pass is in a pipeline if a phase of the pipeline names it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Phase(NamedTuple):
    """``passes`` that repeat until none changes the model.  ``reason``: why the phase has this place."""

    name: str
    reason: str
    passes: tuple[str, ...]


RESOLVE_CUSTOM = (
    "resolve_customop_add",
    "resolve_customop_batchmatmul",
    "resolve_customop_matmul",
    "resolve_customop_max_pool_with_argmax",
    "resolve_customop_splitv",
    "resolve_customop_transpose_conv",
    "resolve_former_customop",
)
"""Passes that replace custom operators by builtin ones."""

CLEAN_UP_IMPORT = Phase(
    "clean up the import",
    "Exporters leave operators without users, custom operators that have a builtin form, and operators that "
    "do nothing. The other phases look for builtin operators that are next to each other, and count users. "
    "Operators that rewrites leave without users are removed in the next round.",
    ("remove_dead", *RESOLVE_CUSTOM, "remove_identity", "remove_unnecessary_cast"),
)

FOLD = Phase(
    "fold",
    "Later passes recognize weights, shapes and permutations only if they are constants. A condition that "
    "has become constant removes a branch.",
    ("fold_constants", "fold_computed_shape", "fold_densify", "fold_dequantize", "remove_constant_if"),
)

CANONICALIZE = Phase(
    "canonicalize",
    "Operators whose result equals their operand, or that undo each other, separate operators that can be "
    "fused. This needs the constants of the previous phase. BATCH_MATMUL absorbs transposes before the "
    "layouts are chosen: otherwise a layout may be chosen to save a transpose that costs nothing. "
    "Reductions absorb reshapes before forward_reshape_to_unaryop moves these away. Layouts can be chosen "
    "for GATHER, but not for GATHER_ND.",
    (
        "remove_reshape_around_batch_matmul",
        "fuse_repeat_with_batch_matmul",
        "fuse_transpose_with_batch_matmul",
        "replace_const_batch_matmul_with_fc",
        "fuse_reshape_with_mean",
        "fuse_sum_to_mean",
        "substitute_gathernd_to_gather",
        "forward_reshape_to_unaryop",
        "remove_unnecessary_add",
        "remove_unnecessary_div",
        "remove_unnecessary_mul",
        "remove_unnecessary_pad",
        "remove_unnecessary_slice",
        "remove_unnecessary_split",
        "remove_unnecessary_strided_slice",
        "remove_unnecessary_reshape",
        "remove_unnecessary_transpose",
        "remove_redundant_activation",
        "remove_redundant_quantize",
        "remove_redundant_reshape",
        "remove_redundant_transpose",
        "remove_broadcast",
        "transform_min_max_to_relu6",
        "transform_min_relu_to_relu6",
        "transform_max_to_relu",
        "fuse_prelu",
    ),
)

LAYOUT = Phase(
    "layout",
    "Transposes go to the places in the graph where they copy the fewest bytes. Operators between reshapes "
    "get the rank of the operators around them, so that further transposes can move. Fusion comes later "
    "because transposes and reshapes separate the operators that it looks for.",
    ("fuse_pixel_shuffle", "optimize_layout", "extend_rank", "forward_movement_chain"),
)

FUSE_NORMALIZATION = Phase(
    "fuse normalizations and activation functions",
    "An exporter writes several operators for what can be one operator. This comes before the fusion into "
    "layers, which would merge some of these operators with others.",
    (
        "fuse_softmax",
        "fuse_l2norm",
        "fuse_variance",
        "fuse_rmsnorm",
        "fuse_mul_with_rmsnorm",
        "fuse_rope",
        "fuse_instnorm",
        "replace_with_fc_gelu_fc",
        "fuse_gelu",
        "fuse_rsqrt",
        "fuse_hardswish",
        "fuse_gather_guard",
        "fuse_neg",
        "fuse_layernorm",
    ),
)

FOLD_BATCHNORM = (
    "fuse_space_to_batch_with_conv",
    "fuse_space_to_batch_with_conv1d",
    "normalize_batchnorm",
    "forward_batchnorm",
    "forward_batchnorm_over_add",
    "forward_batchnorm_over_concat",
    "forward_number",
    "fuse_batchnorm_with_conv",
    "fuse_batchnorm_with_dwconv",
    "fuse_batchnorm_with_tconv",
    "fuse_mul_with_conv",
    "fuse_mul_with_dwconv",
    "fuse_mul_with_tconv",
    "fuse_mul_with_div",
    "fuse_mul_with_fullyconnected",
    "fuse_add_with_conv",
    "fuse_add_with_dwconv",
    "fuse_add_with_tconv",
    "fuse_add_with_fully_connected",
)
"""Passes that move constant factors and offsets of channels to a layer and fold them into its constants.

The first two make layers: a dilated convolution, which an exporter wrote as three operators, becomes one.
"""

FUSE = Phase(
    "fuse into layers",
    "Factors and offsets of channels move next to a convolution or a fully connected layer, then into its "
    "weights and bias. Activations move into the operator before them.",
    (
        "remove_reshape_around_unaryop",
        "remove_reshape_before_fullyconnected",
        "fuse_transpose_with_fullyconnected",
        "fuse_transpose_to_fullyconnected_weights",
        "replace_non_const_fc_with_batch_matmul",
        "fuse_slice_with_tconv",
        "fuse_slice_with_pad",
        "fuse_pad",
        *FOLD_BATCHNORM,
        "fuse_add_to_conv_bias",
        "fuse_mul_to_conv_weights",
        "fuse_preactivation_batchnorm",
        "fuse_add_to_fullyconnected_bias",
        "fuse_mul_to_fullyconnected_weights",
        "fuse_add_with_add",
        "fuse_mul_with_add",
        "fuse_horizontal_fc_layers",
        "transform_sqrt_div_to_rsqrt_mul",
        "fuse_mean_subtraction",
        "fuse_activation_function",
        "fuse_transpose_with_mean",
        "fuse_mean_with_mean",
    ),
)

JOIN = Phase(
    "join parallel operators",
    "Equal operators become one. Layers that read the same input become one layer and a SPLIT. The SPLIT "
    "then moves past equal operators on its results. This comes after fusion: fusion needs results with one "
    "user, and folds factors and offsets into each layer separately.",
    ("common_subexpression_elimination", "join_grouped_convolution", "join_fully_connected", "forward_split"),
)

MERGE_MOVEMENT = Phase(
    "merge data movement",
    "Chains of operators that move data are written as the fewest such operators. This comes after fusion, "
    "which absorbs some of them one by one. Slices become a SPLIT if possible; after that, the other "
    "slices move toward the inputs. A NEG between slices and a concatenation is removed last: without the "
    "NEG, merge_data_movement would merge slices and concatenation before the slices can become a SPLIT.",
    ("order_channels", "merge_data_movement", "join_slices", "backward_slice", "fuse_neg_with_factor"),
)

LEGALIZE = Phase(
    "legalize",
    "Runtimes have RESHAPE, PAD and SPLIT in more forms than the operators that are replaced here. This "
    "comes after fusion, because the passes that fuse look for the original operators.",
    (
        "substitute_expand_dims_to_reshape",
        "substitute_pack_to_reshape",
        "substitute_padv2_to_pad",
        "substitute_splitv_to_split",
        "substitute_squeeze_to_reshape",
        "substitute_transpose_to_reshape",
    ),
)

CLEAN_UP = Phase(
    "clean up",
    "Rewrites leave equal constants.",
    ("remove_duplicate_const",),
)

ORDER = Phase(
    "order",
    "The order with the lowest peak of memory depends on which operators there are, so this comes last.",
    ("reorder_for_memory",),
)

O1 = (
    CLEAN_UP_IMPORT,
    FOLD,
    CANONICALIZE,
    LAYOUT,
    FUSE_NORMALIZATION,
    FUSE,
    JOIN,
    MERGE_MOVEMENT,
    LEGALIZE,
    CLEAN_UP,
)

PIPELINES: dict[str, tuple[Phase, ...]] = {"O1": O1, "Omem": (*O1, ORDER)}
"""The phases of each pipeline, in the order in which they run; the option of a pipeline is ``--NAME``."""


ON_REQUEST = (
    Phase(
        "subsumed",
        "fold_constants does the same for all operators; the flags exist because ONE has them.",
        (
            "fold_add_v2", "fold_cast", "fold_dwconv", "fold_fully_connected", "fold_gather", "fold_mul",
            "fold_reshape", "fold_shape", "fold_sparse_to_dense", "fold_squeeze",
        ),
    ),
    Phase(
        "subsumed by layout",
        "optimize_layout and merge_data_movement do the same for all operators.",
        ("forward_transpose_op", "substitute_strided_slice_to_reshape"),
    ),
    Phase(
        "combinations",
        "Each of these runs passes of O1 under the name of one of TensorFlow's graph transforms.",
        ("fold_batch_norms", "remove_nodes", "strip_unused_nodes"),
    ),
    Phase(
        "changed values",
        "The result has other values on purpose.",
        (
            "freeze_batchnorm", "fuse_bcq", "make_batchnorm_gamma_positive", "remove_dropout",
            "remove_fakequant", "remove_gather_guard", "remove_nodes_of", "remove_qdq_for_mpo",
            "remove_quantdequant", "remove_softmax",
        ),
    ),
    Phase(
        "changed interface",
        "Inputs or outputs of the model change on purpose.",
        (
            "change_outputs", "dynamic_batch_to_single_batch", "nchw_to_nhwc_input_shape",
            "nchw_to_nhwc_output_shape",
        ),
    ),
    Phase(
        "other forms",
        "The result is not cheaper in general, but some runtime or later tool needs it.",
        (
            "convert_nchw_to_nhwc", "decompose_hardswish", "decompose_softmax", "expand_broadcast_const",
            "replace_average_pool_with_mean", "replace_cw_mul_add_with_depthwise_conv",
            "replace_neg_with_mul", "replace_pow", "replace_square_with_mul",
            "replace_squared_difference_with_mul", "replace_sub_with_add", "replace_sum_with_mean",
            "shuffle_weight_to_16x1float32", "sparsify_tensor", "unroll_unidirseqlstm",
        ),
    ),
)  # fmt: skip
"""Groups of passes that are in no pipeline; ``reason`` says why.

A group does not run as a phase: each of its passes runs only if it is asked for by name.
"""


def pipeline_passes(name: str) -> list[str]:
    """Return the names of the passes of the pipeline ``name``, a key of PIPELINES, in order."""
    return [member for phase in PIPELINES[name] for member in phase.passes]


def in_order(names: Iterable[str]) -> list[str]:
    """Return ``names`` without repetitions: those of O1 in its order, then the others sorted by name."""
    rank = {name: index for index, name in enumerate(pipeline_passes("O1"))}
    return sorted(set(names), key=lambda name: (rank.get(name, len(rank)), name))
