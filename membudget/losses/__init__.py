"""Losses over a large vocabulary for training code: what `membudget loss` prices, as functions to call.

    from membudget.losses import Head, Term, combine

    loss = combine(Head(hidden, lm_head.weight), [Term("cross_entropy"), Term("kl", weight=0.15)],
                   targets=Head(teacher_hidden, teacher_head.weight), labels=labels, method="fused_head", chunk=4096)

The functions are thin: the same programs run here on torch and, for prices, on sizes.
"""

from __future__ import annotations

from membudget.losses.combined import combine
from membudget.losses.inputs import Head
from membudget.losses.methods import METHODS
from membudget.losses.single import cap, cross_entropy, jsd, kl, kl_topk, reverse_kl, tv
from membudget.losses.term import Term
from membudget.losses.topk_error import KlTopKError, kl_topk_error

__all__ = [
    "METHODS",
    "Head",
    "KlTopKError",
    "Term",
    "cap",
    "combine",
    "cross_entropy",
    "jsd",
    "kl",
    "kl_topk",
    "kl_topk_error",
    "reverse_kl",
    "tv",
]
