"""What is a secret by its name or place, and is left out of what is written down."""

from __future__ import annotations

import pytest

from primbench.spec.confidential import hidden, hidden_arguments, is_secret


@pytest.mark.parametrize(
    "name",
    [
        "HF_TOKEN", "NVIDIA_API_KEY", "DB_PWD", "GITHUB_PAT", "PAT", "MY_JWT", "SESSION_COOKIE", "COOKIES",
        "AZURE_STORAGE_SAS", "SAS_URL", "X_BEARER", "torch_hub_token", "X-Amz-Signature", "sig", "UCX_PASSWORD",
        "AUTHORIZATION", "GIT_AUTH",
    ],
)  # fmt: skip
def test_names_of_secrets(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize(
    "name",
    [
        "OMP_NUM_THREADS",
        "PYTHONPATH",
        "LD_LIBRARY_PATH",
        "NCCL_PATTERN",
        "TOKENIZERS_PARALLELISM",
        "SASS_LEVEL",
        "author",
    ],
)
def test_names_of_other_things(name: str) -> None:
    assert not is_secret(name)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("host:env.HF_TOKEN=x,cpus=2", "host:env.HF_TOKEN=***,cpus=2"),
        ("host:env.HF_TOKEN=a,b c\nd", "host:env.HF_TOKEN=***"),
        ("docker:image=https://me:pw@there/x,cpus=2", "docker:image=https://***@there/x,cpus=2"),
        ("https://ghp_abc@there/x?a=1&sig=s%3D&b=2#token=t", "https://***@there/x?a=1&sig=***&b=2#token=***"),
        ("http://proxy:3128/a@b", "http://proxy:3128/a@b"),
        ("m=4,n=4", "m=4,n=4"),
        pytest.param("a" * 200_000, "a" * 200_000, id="long"),
    ],
)
def test_values_of_secrets_are_hidden(text: str, expected: str) -> None:
    assert expected == hidden(text)


def test_what_follows_an_option_of_a_secret_is_hidden() -> None:
    words = ["train.py", "--hf-token", "x", "--epochs", "3", "--api-key=y", "--password", "--verbose", "z"]
    expected = ["train.py", "--hf-token", "***", "--epochs", "3", "--api-key=***", "--password", "--verbose", "z"]
    assert expected == hidden_arguments(words)
