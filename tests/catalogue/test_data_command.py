"""`harness data fetch` as a user runs it, against the stand-in hub."""

from __future__ import annotations

import subprocess
import sys

from senteval_layout import senteval_tar

from harness import catalogue


def test_the_command_line_fetches_a_shipped_entry(standin, client_env, data_root, tmp_path):
    """SentEval's archive at its full counts, by `harness data fetch`, from nothing to checked tables."""
    made = catalogue.entry("senteval")
    archive = senteval_tar(data_root, tmp_path).read_bytes()
    standin.hub_file(str(made.origins[0].hub), "senteval.tar", archive, str(made.origins[0].revision))
    root = tmp_path / "root"

    def data(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", "from harness.cli.main import main; main()", "data", *words]
        env = client_env | {"HARNESS_DATA": str(root)}
        return subprocess.run(command, env=env, capture_output=True, text=True, check=False)

    fetched = data("fetch", "senteval", "wiki1m")
    assert fetched.returncode == 2
    assert fetched.stderr.splitlines()[-1].startswith("error: wiki1m: the hub has no princeton-nlp/datasets-for-simcse")
    assert catalogue.state(root, made).word == "present"
    assert catalogue.verify(root, made) == []
    assert data("verify").stdout == "senteval: OK\n"
