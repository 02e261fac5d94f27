# SPDX-License-Identifier: Apache-2.0
# Done: max(min(x, 6), 0)  ==  relu6(x).

graph main(%x: f32[2,1,3,1]) -> %z {
  %m = Minimum(%x, 6.0)
  %z = Maximum(%m, 0.0)
}

rules {
  passes(transform_min_max_to_relu6)
  order(Relu6)
}
