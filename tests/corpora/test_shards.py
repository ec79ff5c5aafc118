"""Tar shards of pairs: order, limit, images by offset, and shards that are flawed."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_files import image_bytes, write_tar
from PIL import Image

from harness.corpora.shards import ShardPairs
from harness.errors import MissingData, UserError


def png(number: int) -> bytes:
    return image_bytes(Image.new("RGB", (8 + number, 8), (number, 2 * number, 100)))


def pair(number: int) -> dict[str, bytes]:
    key = f"{number:05d}"
    return {
        f"{key}.jpg": png(number),
        f"{key}.json": b"{}",
        f"{key}.txt": f"caption  {number}\n".encode(),
    }


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_tar(tmp_path / "cc" / "00001.tar", {**pair(3), **pair(4)})
    write_tar(tmp_path / "cc" / "00000.tar", {**pair(0), **pair(1), **pair(2)})
    (tmp_path / "cc" / "00000_stats.json").write_text("{}")
    return tmp_path


def test_pairs_come_in_the_order_of_names_with_their_images(root: Path) -> None:
    """One that cannot be decoded is named when a teacher comes to it."""
    for _ in range(2):
        loaded = ShardPairs("cc", "").load(root)
        assert loaded.texts == [f"caption {number}" for number in range(5)]
        assert loaded.warnings == []
        assert [image.shape[1] for image in loaded.images[0:5]] == [8, 9, 10, 11, 12]
        assert loaded.images[4][0, 0].tolist() == [4, 8, 100]
    write_tar(root / "cc" / "00002.tar", {**pair(5), "00005.jpg": b"no image"})
    images = ShardPairs("cc", "").load(root).images
    with pytest.raises(UserError, match=r"the image 00002\.tar/00005 cannot be decoded"):
        list(images[3:6])


def test_a_limit_takes_the_first_pairs_and_reads_no_further_shard(root: Path) -> None:
    (root / "cc" / "00001.tar").write_bytes(b"never read as a tar")
    assert [len(ShardPairs("cc", "", limit=limit).load(root)) for limit in (2, 3)] == [2, 3]
    for limit, bad, message in (
        (4, 0, r"00001\.tar: the shard is truncated or damaged"),
        (4, 1, "has 3 pairs, fewer than the limit 4"),
        (0, 0, "limit = 0 selects no rows"),
    ):
        with pytest.raises(UserError, match=message):
            ShardPairs("cc", "", limit=limit, bad=bad).load(root)


@pytest.mark.parametrize(
    ("files", "flaw"),
    [
        ({"00009.jpg": png(9)}, "00009 has no caption"),
        ({"00009.txt": b"a caption"}, "00009 has no image"),
        ({**pair(9), "00009.txt": b" \n"}, "00009 has a blank caption"),
        ({**pair(9), "00009.jpeg": png(9)}, "00009 has two files of one kind"),
        ({**pair(9), "00009.txt": Path("00009.json")}, "00009 has no caption"),
    ],
    ids=["no caption", "no image", "blank", "two", "a link"],
)
def test_a_flaw_is_named_and_left_out_up_to_the_limit(
    root: Path, files: dict[str, bytes | Path], flaw: str
) -> None:
    write_tar(root / "cc" / "00002.tar", {**files, **pair(5)})
    with pytest.raises(UserError, match=rf"cc: 1 flaws .*00002\.tar: {flaw}.*set bad = 1"):
        ShardPairs("cc", "").load(root)
    loaded = ShardPairs("cc", "", bad=1).load(root)
    assert loaded.texts[-1] == "caption 5"
    assert flaw in loaded.warnings[0]


@pytest.mark.parametrize("kept", [300, 1024, 1300, 3072, 6144])
def test_a_shard_cut_short_anywhere_keeps_its_whole_pairs(root: Path, kept: int) -> None:
    """Two pairs of three members, each a header and a block: cut in a header, in a block, between,
    at the end mark.
    """
    path = root / "cc" / "00001.tar"
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(UserError, match=r"00001\.tar: the shard is truncated"):
        ShardPairs("cc", "").load(root)
    loaded = ShardPairs("cc", "", bad=2).load(root)
    assert loaded.texts == [f"caption {number}" for number in range(3 + kept // 3072)]
    assert len(list(loaded.images[:])) == len(loaded)


def test_contents_and_limit_are_the_fingerprint(root: Path) -> None:
    prints = {ShardPairs("cc", "", limit=limit).fingerprint(root) for limit in (None, 3)}
    write_tar(root / "cc" / "00001.tar", pair(8))
    assert len(prints | {ShardPairs("cc", "").fingerprint(root)}) == 3
    assert ShardPairs("cc", "", bad=9).fingerprint(root) == ShardPairs("cc", "").fingerprint(root)
    (root / "empty").mkdir()
    for folder in ("empty", "absent"):
        with pytest.raises(MissingData, match=rf"cannot find {folder}/\*\.tar; fetch it"):
            ShardPairs(folder, "fetch it").load(root)
