# SPDX-License-Identifier: Apache-2.0
# The sum of any number of tensors of one shape.

graph main(%a: f32[2,3], %b: f32[2,3], %c: f32[2,3]) -> %y {
  %y = AddN(%a, %b, %c)
}
