"""A file is the old one or the new one, also after a power cut."""

import os
import stat

from zigp.runtime.atomic import replacing


def test_a_file_and_its_new_name_are_on_the_disk_before_they_are_relied_upon(tmp_path, monkeypatch):
    """First what is in the file, then, once it has its name, the folder that holds the name."""
    settled = []
    monkeypatch.setattr("os.fsync", lambda opened: settled.append(os.fstat(opened)))
    with replacing(tmp_path / "kept") as part:
        part.write_text("all of it")
        assert settled == []
    file, folder = settled
    assert file.st_ino == (tmp_path / "kept").stat().st_ino
    assert stat.S_ISDIR(folder.st_mode)
    assert folder.st_ino == tmp_path.stat().st_ino
