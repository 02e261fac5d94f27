# SPDX-License-Identifier: Apache-2.0
# Refused: the model subtracts the mean of row i from column i.

graph main(%x: f32[8,8]) -> %z {
  %m = Mean(%x, [1])
  %q = Square(%x)
  %w = Mean(%q, [1])
  %s = Square(%m)
  %v = Sub(%w, %s) {act: RELU}
  %d = Sub(%x, %m)
  %z = Mul(%d, %v)
}

rules {
  passes(fuse_variance)
  unchanged()
  refused("%m: is not subtracted from %x, so the new form would cost more")
}
