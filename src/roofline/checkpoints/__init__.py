"""Checkpoints by their headers: what is stored, in which format, in how many bytes. No weight is read."""

from roofline.checkpoints.opening import Opened, checkpoint, opened
from roofline.checkpoints.tensors import Checkpoint, Tensor

__all__ = ["Checkpoint", "Opened", "Tensor", "checkpoint", "opened"]
