"""Y = X * W: 2-D convolution as in deep learning (the filter is not flipped), or one of its gradients."""

from primbench.kernels.conv.problem import Conv as Conv
