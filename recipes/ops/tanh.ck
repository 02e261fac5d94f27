# SPDX-License-Identifier: Apache-2.0
# The hyperbolic tangent of each element.

graph main(%x: f32[2,3]) -> %y {
  %y = Tanh(%x)
}
