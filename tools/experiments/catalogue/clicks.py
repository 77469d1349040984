"""Sizes of the click data and of its model."""
from .. import old_figures

FIELDS = 39  # indices a row
DENSE_BYTES = old_figures.NUM_FEATURES * 4
RAW_BYTES_A_KEY = 12  # a 64-bit key and a float32
