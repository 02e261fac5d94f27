# SPDX-License-Identifier: Apache-2.0
# Refused: x is a vector, and BATCH_MATMUL reads matrices.

graph main(%x: f32[3], %y: f32[3,2]) -> %z {
  %z = Opaque(%x, %y) {code: "CUSTOM", custom_code: "BatchMatMulV2"} : f32[2]
}

rules {
  passes(resolve_customop_batchmatmul)
  unchanged()
  refused("%x: expected rank 2 or more, got f32[3]")
}
