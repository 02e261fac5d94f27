# SPDX-License-Identifier: Apache-2.0
# A tensor of the given shape, filled with one value.

graph main(%value: f32[]) -> %y {
  %y = Fill([2,3], %value)
}
