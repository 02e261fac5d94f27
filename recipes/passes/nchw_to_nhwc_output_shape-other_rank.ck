# SPDX-License-Identifier: Apache-2.0
# Left alone: the output has rank 3, so it has no channel axis.

graph main(%x: f32[3,4,5]) -> %y {
  %y = Softmax(%x)
}

rules {
  passes(nchw_to_nhwc_output_shape)
  unchanged()
  refused("expected rank 4")
}
