# SPDX-License-Identifier: Apache-2.0
# Done: a sum of 12 elements, divided by 12, becomes MEAN.

graph main(%x: f32[?,3,4,2]) -> %y {
  %s = Sum(%x, [1, -2]) {keep_dims: true}
  %y = Div(%s, 12.0)
}

rules {
  passes(fuse_sum_to_mean)
  order(Mean)
}
