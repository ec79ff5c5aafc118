"""What a job on another node gets of the environment of the command that sent it."""

from __future__ import annotations

from harness.runs.execution import list_shared_variables


def test_no_secret_is_passed_to_other_nodes() -> None:
    plain = {
        "HARNESS_CACHE": "/cache",
        "HF_HOME": "/hub",
        "HF_TOKEN_PATH": "/hub/token",
        "OMP_NUM_THREADS": "2",
        "TOKENIZERS_PARALLELISM": "false",
    }
    secret = {
        "HF_TOKEN": "hf_secret",
        "HF_API_KEY": "secret",
        "HARNESS_TRACKER_PASSWORD": "secret",
        "HF_ENDPOINT": "https://me:secret@mirror.example",
    }
    others = {"PATH": "/bin", "WANDB_API_KEY": "secret"}
    assert list_shared_variables(plain | secret | others) == plain
