# SPDX-License-Identifier: Apache-2.0
# The next whole number from below.

graph main(%x: f32[2,3]) -> %y {
  %y = Ceil(%x)
}
