"""Quintain: resettable, isolated, verifiable episodes for training tool-using language models.

Read the rooms in the order of one episode's life; `quintain.episodes.episode` is the table of contents.
"""

__version__ = "0.1.0"
