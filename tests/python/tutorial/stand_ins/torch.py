"""The one function of PyTorch that the tutorial's executor calls, where PyTorch, with its gigabytes, is not installed."""

from contextlib import nullcontext as inference_mode

__all__ = ["inference_mode"]
