"""What valid configurations mean. What is refused is in cases/invalid."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from membudget.config.load import parse_config
from membudget.config.loss import CHUNKING_METHODS, TEACHER_TERMS, TERMS, Loss
from tests.config.examples import MINIMAL, minimal


def test_the_defaults_of_a_minimal_configuration() -> None:
    config = parse_config(MINIMAL, "a.yaml")
    assert config.model.target_layer_ids == (1, 5)
    assert config.model.logits_size == config.model.vocab_size == 1000
    assert config.model.frozen_tables == ("embed_tokens", "lm_head", "verifier_lm_head")
    assert config.precision.compute == "bf16"
    assert config.optimizer.name == "adamw"
    assert config.batch.loss_tokens == 32 * 8
    assert config.step.keep == "both"
    assert config.budget.limit is None
    assert config.budget.cuda_context == 512 * 2**20
    assert config.hardware.groups[0].memory == 24 * 2**30


def test_sizes_are_bytes() -> None:
    config = parse_config(MINIMAL + "budget: {limit: 95 GB, cuda_context: 0 B}\n", "a.yaml")
    assert (config.budget.limit, config.budget.cuda_context) == (95 * 10**9, 0)


def test_counts_may_be_written_with_an_exponent() -> None:
    assert parse_config(minimal("total_seq_len: 512", "total_seq_len: 8e3"), "a.yaml").batch.total_seq_len == 8000


def test_a_whole_number_is_a_weight() -> None:
    config = parse_config(minimal("cross_entropy: {}", "cross_entropy: {weight: 1}"), "a.yaml")
    assert config.loss.cross_entropy is not None
    assert config.loss.cross_entropy.weight == 1.0


def test_null_takes_an_optional_value_back_to_its_default() -> None:
    text = minimal("vocab_size: 1000", "vocab_size: 1000\n  draft_vocab_size: null")
    assert parse_config(text, "a.yaml") == parse_config(MINIMAL, "a.yaml")


def test_a_draft_vocabulary_makes_the_logits_smaller() -> None:
    text = minimal("vocab_size: 1000", "vocab_size: 1000\n  draft_vocab_size: 100")
    assert parse_config(text, "a.yaml").model.logits_size == 100


def test_autocast_decides_what_is_computed_in() -> None:
    config = parse_config(MINIMAL + "precision: {parameters: fp32, autocast: bf16}\n", "a.yaml")
    assert (config.precision.parameters, config.precision.compute) == ("fp32", "bf16")


def test_terms_come_in_the_order_of_the_loop_and_not_of_the_file() -> None:
    config = parse_config(minimal("cross_entropy: {}", "cap: {}\n  kl: {}\n  cross_entropy: {}"), "a.yaml")
    assert [name for name, _ in config.loss.terms()] == ["cross_entropy", "kl", "cap"]


def test_every_term_is_a_section_of_the_loss() -> None:
    assert set(TERMS) == {name for name in Loss.model_fields if name not in ("labels", "autocast", "token_weights")}
    assert set(TERMS) >= TEACHER_TERMS


@pytest.mark.parametrize("term", TERMS)
@pytest.mark.parametrize("method", sorted(CHUNKING_METHODS))
def test_every_term_takes_every_method_that_chunks(term: str, method: str) -> None:
    text = minimal("cross_entropy: {}", f"{term}: {{method: {method}, chunk: 16}}")
    ((name, read),) = parse_config(text, "a.yaml").loss.terms()
    assert (name, read.method, read.chunk) == (term, method, 16)


def test_a_configuration_cannot_be_changed() -> None:
    config = parse_config(MINIMAL, "a.yaml")
    with pytest.raises(ValidationError, match="frozen"):
        setattr(config.batch, "block_size", 16)  # noqa: B010 - a type checker refuses the plain form


def test_target_gpus_and_the_model_on_them() -> None:
    text = MINIMAL + "    - {role: target, indices: [1, 2], memory: 24 GiB}\n"
    text += "target: {weights: 1 GB, hidden_size: 64, intermediate_size: 128, num_hidden_layers: 6}\n"
    config = parse_config(text, "a.yaml")
    assert config.target is not None
    assert config.target.weights == 10**9
    assert [group.role for group in config.hardware.groups] == ["drafter", "target"]
