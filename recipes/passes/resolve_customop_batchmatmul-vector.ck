# SPDX-License-Identifier: Apache-2.0
# Refused: %y: expected rank 2 or more, got f32[3]

graph main(%x: f32[2,4,3], %y: f32[3]) -> %z {
  %z = Opaque(%x, %y) {code: "CUSTOM", custom_code: "BatchMatMulV2"} : f32[2,4]
}

rules {
  passes(resolve_customop_batchmatmul)
  unchanged()
  refused("expected rank 2 or more, got f32[3]")
}
