# SPDX-License-Identifier: Apache-2.0
# The square of each element.

graph main(%x: f32[2,3]) -> %y {
  %y = Square(%x)
}
