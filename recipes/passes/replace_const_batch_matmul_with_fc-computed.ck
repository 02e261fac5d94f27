# SPDX-License-Identifier: Apache-2.0
# Refused: %y: is not constant, expected const f32[*,_,_]

graph main(%x: f32[2,3,4], %y: f32[4,5]) -> %z {
  %z = BatchMatMul(%x, %y)
}

rules {
  passes(replace_const_batch_matmul_with_fc)
  unchanged()
  refused("%y: is not constant")
}
