# SPDX-License-Identifier: Apache-2.0
# Done: max(x, 0) becomes RELU.

graph main(%x: f32[2,3]) -> %y {
  %y = Maximum(0.0, %x)
}

rules {
  passes(transform_max_to_relu)
  order(Relu)
}
