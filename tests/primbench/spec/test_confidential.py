"""What is a secret by its name or place, and is left out of what is written down."""

from __future__ import annotations

import pytest

from primbench.spec.confidential import hidden, hidden_arguments, hidden_command, hidden_labels, is_secret


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
        ("url=https://there/x?access_token=abc&b=2", "url=https://there/x?access_token=***&b=2"),
        ("a;password=X", "a;password=***"),
        ("dsn=a;password=X;host=b", "dsn=a;password=***;host=b"),
        ("--db=a;password=p&w#d", "--db=a;password=***"),
        ("Authorization: Bearer X", "Authorization: ***"),
        ("curl -H 'X-Auth-Token: a b'", "curl -H 'X-Auth-Token: ***"),
        ("sent with Bearer abc.def", "sent with Bearer ***"),
        ('{"token": "X\\"Y", "epochs": 3}', '{"token": "***", "epochs": 3}'),
        ('{"args": "{\\"api_key\\": \\"X\\"}"}', '{"args": "{\\"api_key\\": ***'),
        ("{'password':'X', 'n': 2}", "{'password':'***', 'n': 2}"),
        ('{"keys": ["X", "Y"]}', '{"keys": ***'),
        ("password = 'X'", "password = '***'"),
        ("docker:image=there:5000/keys:1,cpus=2", "docker:image=there:5000/keys:1,cpus=2"),
        ("/opt/keys:/usr/lib", "/opt/keys:/usr/lib"),
        pytest.param("a" * 200_000, "a" * 200_000, id="long"),
        pytest.param("a=" * 100_000, "a=" * 100_000, id="many"),
        pytest.param("a: " * 100_000, "a: " * 100_000, id="many of another kind"),
        pytest.param("key" + " " * 200_000, "key" + " " * 200_000, id="spaces"),
    ],
)
def test_values_of_secrets_are_hidden(text: str, expected: str) -> None:
    assert expected == hidden(text) == hidden(hidden(text))


ARGUMENTS = [
    (
        ["train.py", "--hf-token", "x", "--epochs", "3", "--api-key=y", "--password", "--verbose", "z"],
        ["train.py", "--hf-token", "***", "--epochs", "3", "--api-key=***", "--password", "--verbose", "z"],
    ),
    (["-H", "Authorization: Bearer X", "-p", "X", "-pX", "-u", "me:X"],
     ["-H", "***", "-p", "***", "-p***", "-u", "***"]),
    (["--password", "-X", "--password", "--X9", "--use-auth", "--token", "abc"],
     ["--password", "***", "--password", "***", "--use-auth", "--token", "***"]),
    (["a;password=X", '{"token": "X"}', "https://there/?access_token=X", "--url=https://me:X@there"],
     ["***", "***", "***", "--url=***"]),
    (["--lr", "-1e-3", "-j8", "--optimizer=adam", "model=resnet50", "+db.password=X", "--amp", "cfg/run.yaml", "4K"],
     ["--lr", "-1e-3", "-j8", "--optimizer=adam", "model=resnet50", "+db.password=***", "--amp", "***", "4K"]),
    (["hf_aB3dE5fG7hI9jK1l", "--run", "eyJhbGciOiJIUzI1NiJ9.e30.x", "--name", "two words", "--", ""],
     ["***", "--run", "***", "--name", "***", "--", ""]),
]  # fmt: skip


@pytest.mark.parametrize(("words", "expected"), ARGUMENTS)
def test_of_arguments_names_stay_and_numbers_and_plain_words(words: list[str], expected: list[str]) -> None:
    assert expected == hidden_arguments(words)


def test_of_a_command_all_stays_but_secrets() -> None:
    words = ["primbench", "run", "cfg/a.toml", "--arm", "ssh:me@there,cpus=2", "--label", "a;password=X"]
    words += ["-H", "Authorization: Bearer X", "-p", "X", "--password", "-X", "--db-password=X", "-m", "4K"]
    expected = ["primbench", "run", "cfg/a.toml", "--arm", "ssh:me@there,cpus=2", "--label", "a;password=***"]
    expected += ["-H", "***", "-p", "***", "--password", "***", "--db-password=***", "-m", "4K"]
    assert expected == hidden_command(words)


def test_labels_hold_no_secret() -> None:
    labels = {"access_token": "X", "url": "https://there/?access_token=X", "set": "training"}
    assert {"access_token": "***", "url": "https://there/?access_token=***", "set": "training"} == hidden_labels(labels)
