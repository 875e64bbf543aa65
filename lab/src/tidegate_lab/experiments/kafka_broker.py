"""A single-node Kafka broker and the Spark connector, from Maven's jars, for experiments and tests.

The jars are cached in `~/.cache/tidegate`. Without Maven, set the environment variable `TIDEGATE_KAFKA` to a folder
with
the jars in `broker/` and `connector/`.
"""

from __future__ import annotations

import base64
import os
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tidegate.domain import EnvironmentUnfit
from tidegate_lab.experiments.maven import Artifact, cached, can_fetch, fetched

_BROKER = (
    Artifact("org.apache.kafka", "kafka_2.13", "4.0.0", whole=True),
    Artifact("org.slf4j", "slf4j-simple", "1.7.36", whole=True),
)
_CONNECTOR = (  # Spark has its dependencies
    Artifact("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0"),
    Artifact("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
    Artifact("org.apache.kafka", "kafka-clients", "3.9.0"),
    Artifact("org.apache.commons", "commons-pool2", "2.12.0"),
)
VERSION = _BROKER[0].version
_START_S, _STOP_S = 180.0, 60.0


def available() -> str | None:
    """Return what is missing for a broker, or None if it can be started."""
    given = os.environ.get("TIDEGATE_KAFKA")
    if given:
        folders = [Path(given) / part for part in ("broker", "connector")]
        missing = [str(folder) for folder in folders if not any(folder.glob("*.jar"))]
        return f"TIDEGATE_KAFKA: no jars in {missing[0]}" if missing else None
    if can_fetch() or all(cached(_folder(part)).is_dir() for part in ("broker", "connector")):
        return None
    return "Kafka's jars come from Maven: install mvn, or set TIDEGATE_KAFKA to a folder with broker/ and connector/"


def connector_jars() -> list[str]:
    """Return the jars that a Spark session needs to read from Kafka."""
    return sorted(str(path) for path in _jars("connector").glob("*.jar"))


class Broker:
    """A broker that runs during the `with` block. It may be killed and restarted in between."""

    def __init__(self, folder: Path, host: str = "127.0.0.1", within: Sequence[str] = ()) -> None:
        """`within` precedes the commands that start it, for example to enter a network namespace with `host` in it."""
        self._folder, self._host, self._within = folder, host, within
        self._process: subprocess.Popen[bytes] | None = None
        self.address = ""
        """For `bootstrap.servers`."""

    def __enter__(self) -> Broker:
        self._folder.mkdir(parents=True, exist_ok=True)
        port = _free_port()
        self.address = f"{self._host}:{port}"
        (self._folder / "server.properties").write_text(
            _settings(self._host, port, _free_port(), self._folder / "data")
        )
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        self._run("kafka.tools.StorageTool", "format", "-t", cluster, "-c").wait()
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                self.kill()

    def start(self) -> None:
        """Start it at the same address with its data. Returns when it answers."""
        self._process = self._run("kafka.Kafka")
        self._await()

    def kill(self) -> None:
        """Send SIGKILL, so that it cannot write anything."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """During this block it accepts connections but answers nothing."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def _run(self, program: str, *words: str) -> subprocess.Popen[bytes]:
        jars = _jars("broker")
        java = ["java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*"]
        command = [*self._within, *java, program, *words, str(self._folder / "server.properties")]
        with (self._folder / "broker.log").open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log)

    def _await(self) -> None:
        assert self._process is not None
        host, _, port = self.address.rpartition(":")
        deadline_s = time.monotonic() + _START_S
        while time.monotonic() < deadline_s and self._process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex((host, int(port))) == 0:
                    return
            time.sleep(0.1)
        self.__exit__()
        raise EnvironmentUnfit(f"the Kafka broker did not start; see {self._folder / 'broker.log'}")


def create_topic(address: str, topic: str, partitions: int) -> None:
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    admin = AdminClient({"bootstrap.servers": address})  # to be kept until it has answered
    admin.create_topics([NewTopic(topic, partitions)])[topic].result(30)


def _artifacts(part: str) -> tuple[Artifact, ...]:
    return _BROKER if part == "broker" else _CONNECTOR


def _folder(part: str) -> str:
    return f"kafka/{part}-{_artifacts(part)[0].version}"


def _jars(part: str) -> Path:
    missing = available()
    if missing is not None:
        raise EnvironmentUnfit(missing)
    given = os.environ.get("TIDEGATE_KAFKA")
    return Path(given) / part if given else fetched(_folder(part), _artifacts(part))


def _settings(host: str, port: int, controller: int, data: Path) -> str:
    return f"""process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller}
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller}
advertised.listeners=PLAINTEXT://{host}:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={data}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
"""


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
