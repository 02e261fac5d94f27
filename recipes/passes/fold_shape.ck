# SPDX-License-Identifier: Apache-2.0
# Done: SHAPE of a tensor of known shape becomes a constant.

graph main(%x: f32[2,2]) -> %y {
  %k = Shape(%x) {out_type: i32} : i32[2]
  %r = Cast(%k) : f32[2]
  %y = Add(%x, %r) : f32[2,2]
}

rules {
  passes(fold_shape)
  order(Cast, Add)
}
