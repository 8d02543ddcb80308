"""The options of `loss`, apart from the command so that it can be read."""

from __future__ import annotations

from typing import Annotated

import typer

Terms = Annotated[list[str], typer.Argument(metavar="TERM", help="One or more: cross_entropy, kl, cap ...")]
Tokens = Annotated[str, typer.Option("--tokens", metavar="N", help="Tokens the loss sees.")]
Vocab = Annotated[str, typer.Option("--vocab", metavar="N", help="Entries of a row of logits.")]
Hidden = Annotated[str, typer.Option("--hidden", metavar="N", help="Width of the hidden states.")]
Method = Annotated[str, typer.Option("--method", metavar="METHOD|all", help="One way to compute it, or all.")]
Chunk = Annotated[
    str | None,
    typer.Option("--chunk", metavar="N", help="Tokens per chunk. Default: 4096, at most the tokens."),
]
SoftmaxDtype = Annotated[
    str | None,
    typer.Option(
        "--softmax-dtype", metavar="native|fp32", help="Of the softmaxes; of cross_entropy only when it is alone."
    ),
]
Upcast = Annotated[bool, typer.Option("--upcast", help="Cross entropy on logits.float(), an fp32 copy.")]
Temperature = Annotated[
    str | None,
    typer.Option("--temperature", metavar="T", help="Of the teacher's terms; of the others when there is none."),
]
Beta = Annotated[str | None, typer.Option("--beta", metavar="B", help="Of jsd, 0 < B < 1.")]
TopK = Annotated[str | None, typer.Option("--top-k", metavar="K", help="Of kl_topk.")]
LogitsDtype = Annotated[
    str, typer.Option("--logits-dtype", metavar="bf16|fp16|fp32", help="Dtype of logits and targets.")
]
Keep = Annotated[
    str,
    typer.Option("--keep", metavar="none|logits|targets|both", help="What the caller holds until backward."),
]
Head = Annotated[str, typer.Option("--head", metavar="frozen|trainable", help="Whether the head gets a gradient.")]
Labels = Annotated[
    str, typer.Option("--labels", metavar="data|targets", help="Labels: data, or argmax of the targets.")
]
Autocast = Annotated[bool, typer.Option("--autocast", help="The loss runs inside autocast.")]
TokenWeights = Annotated[
    bool, typer.Option("--token-weights", help="Tokens have weights, or a mask: rows are summed one by one.")
]
Format = Annotated[str, typer.Option("--format", metavar="table|json", help="How to print it.")]
