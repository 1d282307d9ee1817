"""How much of a stream of audio frames is something else."""

from pathlib import Path

import pytest

from secretary.core.files import share_between_frames

MP3 = b"\xff\xfb\x90\x64" + bytes(413)
ADTS = b"\xff\xf1\x50\x80\x0d\x00\xfc" + bytes(0x68 - 7)


@pytest.mark.parametrize(("kind", "frame"), [("mp3", MP3), ("aac", ADTS)])
class TestShare:
    def test_a_whole_file_has_nothing_between_its_frames(
        self, tmp_path: Path, kind: str, frame: bytes
    ) -> None:
        assert self.share(tmp_path, kind, frame * 10) == 0

    def test_what_is_between_frames_is_counted(
        self, tmp_path: Path, kind: str, frame: bytes
    ) -> None:
        content = frame * 8 + bytes(2 * len(frame)) + frame * 10
        assert self.share(tmp_path, kind, content) == pytest.approx(0.1)

    def test_what_is_before_and_behind_them_is_not(
        self, tmp_path: Path, kind: str, frame: bytes
    ) -> None:
        assert self.share(tmp_path, kind, bytes(500) + frame * 10 + b"TAG" + bytes(125)) == 0

    def test_tags_between_two_parts_are_no_damage(
        self, tmp_path: Path, kind: str, frame: bytes
    ) -> None:
        tags = b"TAG" + bytes(125) + b"ID3\x04\x00\x00\x00\x00\x01\x00" + bytes(128)
        assert self.share(tmp_path, kind, frame * 10 + tags + frame * 10) == 0

    def test_a_file_without_frames_is_none(self, tmp_path: Path, kind: str, frame: bytes) -> None:
        assert self.share(tmp_path, kind, b"\xff" * 1000) == 0

    def share(self, tmp_path: Path, kind: str, content: bytes) -> float:
        path = tmp_path / "file"
        path.write_bytes(content)
        return share_between_frames(str(path), kind)
