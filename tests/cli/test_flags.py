# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: SIM905  # a long list of names is easier to read as one string
"""Every flag of ONE's circle2circle exists under the same name; effects of flags that name no pass."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest
import tflite

import circlekit
from circlekit.cli.circle2circle import main as circle2circle
from circlekit.cli.optimize import optimize as main
from circlekit.ir.text import parse_model
from tests.conftest import SHARED, without
from tests.nets import TCONV_BATCH_NORM

FEATURES = SHARED / "peer" / "features.md"

PASSES = """
fold_add_v2 fold_cast fold_densify fold_dequantize fold_dwconv fold_fully_connected fold_gather fold_mul
fold_reshape fold_shape fold_sparse_to_dense fold_squeeze fuse_activation_function
fuse_add_to_fullyconnected_bias fuse_add_with_conv fuse_add_with_fully_connected fuse_add_with_tconv
fuse_batchnorm_with_conv fuse_batchnorm_with_dwconv fuse_batchnorm_with_tconv
fuse_mul_to_fullyconnected_weights fuse_slice_with_tconv fuse_bcq fuse_horizontal_fc_layers fuse_instnorm
fuse_mean_with_mean fuse_mul_with_conv fuse_mul_with_div fuse_mul_with_fullyconnected
fuse_mul_with_rmsnorm fuse_preactivation_batchnorm make_batchnorm_gamma_positive fuse_prelu fuse_gelu
fuse_rsqrt fuse_rmsnorm fuse_rope fuse_transpose_with_mean remove_duplicate_const remove_fakequant
remove_gather_guard remove_qdq_for_mpo remove_quantdequant remove_redundant_quantize
remove_redundant_reshape remove_redundant_transpose remove_unnecessary_add remove_unnecessary_mul
remove_unnecessary_div remove_unnecessary_cast remove_unnecessary_reshape remove_unnecessary_slice
remove_unnecessary_split remove_unnecessary_strided_slice remove_unnecessary_transpose
replace_cw_mul_add_with_depthwise_conv replace_sub_with_add replace_non_const_fc_with_batch_matmul
replace_with_fc_gelu_fc substitute_expand_dims_to_reshape substitute_pack_to_reshape
substitute_padv2_to_pad substitute_splitv_to_split substitute_squeeze_to_reshape
substitute_strided_slice_to_reshape substitute_transpose_to_reshape transform_min_max_to_relu6
transform_min_relu_to_relu6 transform_sqrt_div_to_rsqrt_mul decompose_hardswish decompose_softmax
resolve_customop_add resolve_customop_batchmatmul resolve_customop_matmul
resolve_customop_max_pool_with_argmax resolve_customop_splitv resolve_former_customop
forward_reshape_to_unaryop forward_transpose_op convert_nchw_to_nhwc shuffle_weight_to_16x1float32
expand_broadcast_const common_subexpression_elimination unroll_unidirseqlstm
dynamic_batch_to_single_batch
""".split()

OTHERS = """
nchw_to_nhwc_input_shape nchw_to_nhwc_output_shape change_outputs sparsify_tensor
sparsify_traversal_order sparsify_format sparsify_block_size sparsify_block_map
exp_disable_sep_transposeconv_actfunc mute_warnings disable_validation generate_profile_data verbose
version help
""".split()


@pytest.fixture
def net(tmp_path: Path) -> Path:
    path = tmp_path / "net.ck"
    path.write_text(TCONV_BATCH_NORM)
    return path


def test_help_has_every_flag(capsys: pytest.CaptureFixture[str]) -> None:
    assert circle2circle(["--help"]) == 0
    words = set(capsys.readouterr().out.replace(",", " ").replace("]", " ").split())
    assert not {name for name in [*PASSES, *OTHERS] if f"--{name}" not in words}


@pytest.mark.skipif(not FEATURES.is_file(), reason=without("peer/features.md"))
def test_lists_of_flags_are_complete() -> None:
    """The first column of the tables in section 1 of the document on ONE names the flags."""
    text = FEATURES.read_text().partition("\n## 1. ")[2].partition("\n## 2. ")[0]
    cells = re.findall(r"^\| ([a-z][^|]*) \|", text, re.MULTILINE)
    found: set[str] = set()
    for cell in cells:
        first, *rest = re.findall(r"[a-z_][a-z0-9_]+", re.sub(r"\([^)]*\)| [A-Z]+| with .*", "", cell))
        found.add(first)
        for name in rest:  # "fuse_batchnorm_with_conv / _dwconv", "remove_unnecessary_mul / _div"
            found.add(first.rpartition("_")[0] + name if name.startswith("_") else name)
    assert {"flag"} < found
    assert found - {"flag"} <= {*PASSES, *OTHERS}
    assert set(PASSES) <= found


def test_each_pass_flag_is_accepted(net: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.circle"
    assert main([str(net), str(out), *(f"--{name}" for name in PASSES)]) == 0


def test_activation_can_stay_fused_in_a_transposed_convolution(net: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.circle"
    assert main([str(net), str(out), "--fuse_batchnorm_with_tconv"]) == 0
    assert [op.code for op in circlekit.load(out).main] == ["TRANSPOSE_CONV", "RELU"]
    flags = ["--fuse_batchnorm_with_tconv", "--exp_disable_sep_transposeconv_actfunc"]
    assert main([str(net), str(out), *flags]) == 0
    assert [op.code for op in circlekit.load(out).main] == ["TRANSPOSE_CONV"]


def test_profile_data(net: Path, tmp_path: Path) -> None:
    """The one operator that is left has number 0, and comes from the operators 0, 1 and 2.

    The file is read by the tflite package.
    """
    out = tmp_path / "out.tflite"
    flags = ["--fuse_batchnorm_with_tconv", "--generate_profile_data"]
    assert main([str(net), str(out), *flags]) == 0
    model = tflite.Model.GetRootAs(out.read_bytes())
    tables = {}
    for index in range(model.MetadataLength()):
        entry = model.Metadata(index)
        tables[entry.Name()] = model.Buffers(entry.Buffer()).DataAsNumpy().tobytes()
    names = [b"t\0", b"m\0", b"y\0"]
    entries = [struct.pack("<II", i, len(name)) + name for i, name in enumerate(names)]
    assert tables[b"ONE_source_table"] == struct.pack("<I", 3) + b"".join(entries)
    assert tables[b"ONE_op_table"] == struct.pack("<6I", 1, 0, 3, 0, 1, 2)


def test_warnings_are_muted(net: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = TCONV_BATCH_NORM.replace(
        "%y = Add(%m, [-2.0, 0.1, 0.0]) {act: RELU}", "%y = Mul(%m, [0.0, 0.0, 0.0])"
    )
    net.write_text(text)
    for flags, notes in (([], 1), (["--mute_warnings"], 0)):
        assert main([str(net), str(tmp_path / "out.circle"), "--remove_dead", "--verify", *flags]) == 0
        assert capsys.readouterr().out.count("note: ") == notes


def test_validation_can_be_disabled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = tmp_path / "net.ck", tmp_path / "out.circle"
    source.write_text("graph main(%x: f32[2,3], %k: f32[2,4]) -> %y { %y = Add(%x, %k) : f32[2,3] }")
    assert main([str(source), str(out)]) == 1
    assert not out.exists()
    assert main([str(source), str(out), "--disable_validation"]) == 0
    assert out.exists()


def test_cyclic_graph_is_refused_without_validation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = tmp_path / "net.circle", tmp_path / "out.circle"
    model = parse_model("graph main(%x: f32[2,3]) -> %z { %y = Relu(%x)  %z = Relu(%y) }")
    model.main.ops[0].set_input(0, model.main.ops[0].output)
    circlekit.save(model, source)
    assert main([str(source), str(out), "--O1", "--disable_validation"]) == 1
    assert "%y is used before operator 0 produces it" in capsys.readouterr().err
    assert not out.exists()
