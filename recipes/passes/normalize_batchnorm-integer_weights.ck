# SPDX-License-Identifier: Apache-2.0
# Refused: weights of a layer that computes with integers inside are not folded.

graph main(%x: f32[2,3]) -> %y {
  %w = const i8[4,3] quant(scale: 0.5) uniform(-9, 9)
  %a = FullyConnected(%x, %w, none)  : f32[2,4]
  %y = Sub([1.0, 2.0, 3.0, 4.0], %a)
}

rules {
  passes(normalize_batchnorm)
  unchanged()
  refused("%w: is not a float32 constant, so nothing can be folded into it")
}
