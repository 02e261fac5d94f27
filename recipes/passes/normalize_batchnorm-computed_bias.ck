# SPDX-License-Identifier: Apache-2.0
# Refused: nothing can be folded into a bias that is computed.

graph main(%x: f32[2,3], %v: f32[4]) -> %y {
  %w = const f32[4,3] gaussian(0, 0.3)
  %b = Neg(%v)
  %a = FullyConnected(%x, %w, %b)
  %y = Sub([1.0, 2.0, 3.0, 4.0], %a)
}

rules {
  passes(normalize_batchnorm)
  unchanged()
  refused("%b: is not a float32 constant, so nothing can be folded into it")
}
