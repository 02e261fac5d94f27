# SPDX-License-Identifier: Apache-2.0
# Done: relu(min(x, 6))  ==  relu6(x).

graph main(%x: f32[2,1,3,1]) -> %z {
  %m = Minimum(%x, 6.0)
  %z = Relu(%m)
}

rules {
  passes(transform_min_relu_to_relu6)
  order(Relu6)
}
