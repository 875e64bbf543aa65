"""Small files on the filesystem that Spark uses for checkpoints, through Hadoop's client."""

from __future__ import annotations

import re
from typing import Any

from pyspark.sql import SparkSession

_GLOB = re.compile(r"([*?{}\[\]\\])")
"""Characters of a path that have a special meaning in a pattern."""


class HadoopFiles:
    """Reads, replaces, copies and deletes files, including the checksums that Hadoop keeps beside local files."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        jvm: Any = spark.sparkContext._jvm
        self._jvm = jvm
        self._conf = spark._jsparkSession.sessionState().newHadoopConf()
        self._root: Any = self._jvm.org.apache.hadoop.fs.Path(root)
        self._system = self._root.getFileSystem(self._conf)

    def names(self, folder: str) -> list[str]:
        """Plain files in a folder, without hidden ones; empty if the folder does not exist."""
        path = self._path(folder)
        if not self._system.exists(path):
            return []
        found = (status.getPath().getName() for status in self._system.listStatus(path) if status.isFile())
        return sorted(str(name) for name in found if not str(name).startswith("."))

    def matching(self, pattern: str) -> list[str]:
        """Files and folders whose path below the root matches, such as `state/*/*/7[._]*`, without hidden ones."""
        root = _GLOB.sub(r"\\\1", str(self._root.toString()))
        found = self._system.globStatus(self._jvm.org.apache.hadoop.fs.Path(f"{root}/{pattern}")) or ()
        depth = pattern.count("/") + 1
        paths = ("/".join(str(status.getPath().toString()).split("/")[-depth:]) for status in found)
        return sorted(path for path in paths if not path.rsplit("/", 1)[-1].startswith("."))

    def read(self, name: str) -> str | None:
        """The whole text, or None if the file does not exist. Includes what a `replace` left when killed at its end."""
        path = next((path for path in (self._path(name), self._draft(name)) if self._system.exists(path)), None)
        if path is None:
            return None
        stream = self._system.open(path)
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def replace(self, name: str, text: str) -> None:
        """Write to a draft and rename it, so that no reader sees half of it."""
        draft = self._draft(name)
        stream = self._system.create(draft, True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        target = self._path(name)
        self._system.delete(target, False)
        if not self._system.rename(draft, target):
            raise OSError(f"{target} could not be written")

    def _draft(self, name: str) -> Any:
        return self._path(f"{name}.draft")

    def exists(self, name: str) -> bool:
        return bool(self._system.exists(self._path(name)))

    def copy(self, source: str, target: str) -> None:
        """Copy a file or a folder."""
        self._jvm.org.apache.hadoop.fs.FileUtil.copy(
            self._system, self._path(source), self._system, self._path(target), False, True, self._conf
        )

    def delete(self, name: str) -> None:
        """Remove a file or a folder, if it exists.

        A checksum without its file is removed too, because Spark could not write a file of that name otherwise.
        """
        self._system.delete(self._path(name), True)
        folder, _, file = name.rpartition("/")
        self._system.delete(self._path(f"{folder}/.{file}.crc" if folder else f".{file}.crc"), False)

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._root, name) if name else self._root
