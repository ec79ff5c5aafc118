"""The method passes the checks of the harness, and trains."""

from click.testing import CliRunner

import harness
from harness.cli.main import cli


def test_it_passes_the_checks():
    """What every method has to pass."""
    done = CliRunner().invoke(cli, ["check", "my_method"])
    assert done.exit_code == 0, done.output


def test_it_trains(tmp_path):
    """Four steps on toy data, and a score."""
    done = harness.run("tiny", methods="my_method", seeds=1, suites="sts", set={"steps": 4}, results=tmp_path)
    assert done.failures == ()
    assert len(done) == 1
