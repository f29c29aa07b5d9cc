"""Building blocks of a network: each declares its weights and yields the kernels of a pass."""
