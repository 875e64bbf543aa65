"""Clusters to run the suite on, started here and ended here: embedded, Standalone and YARN.

All of them come from the PySpark of the environment; YARN's own daemons come from Maven Central, once.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.versions.environments import Environment, NoEnvironment, cache

HERE = Path(__file__).parent
_START_WAIT_S = 90.0


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where the suite runs: a master, and what a session on it needs."""

    master: str
    settings: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)


@contextmanager
def embedded(environment: Environment, scratch: Path) -> Iterator[Cluster]:
    """Executors that are processes of their own, without daemons."""
    yield Cluster("local-cluster[2,1,1024]")


@contextmanager
def standalone(environment: Environment, scratch: Path) -> Iterator[Cluster]:
    """A master and two workers."""
    spark_home = _spark_home(environment)
    port = _free_port()
    variables = {**os.environ, "SPARK_HOME": str(spark_home), "SPARK_LOCAL_IP": "127.0.0.1"}
    launch = [str(spark_home / "bin" / "spark-class")]
    ports = ["--host", "127.0.0.1", "--webui-port", "0"]
    master = f"spark://127.0.0.1:{port}"
    with ExitStack() as daemons:
        command = [*launch, "org.apache.spark.deploy.master.Master", "--port", str(port), *ports]
        daemons.enter_context(_daemon(command, variables, scratch / "master.log", "I have been elected leader"))
        for number in range(2):
            work = ["--cores", "1", "--memory", "1g", "--work-dir", str(scratch / f"worker-{number}")]
            command = [*launch, "org.apache.spark.deploy.worker.Worker", *work, *ports, master]
            log = scratch / f"worker-{number}.log"
            daemons.enter_context(_daemon(command, variables, log, "Successfully registered with master"))
        yield Cluster(master)


@contextmanager
def yarn(environment: Environment, scratch: Path) -> Iterator[Cluster]:
    """A resource manager and two node managers."""
    java = shutil.which("java")
    if java is None:
        raise NoEnvironment("no java on the PATH")
    conf = scratch / "conf"
    conf.mkdir()
    (conf / "core-site.xml").write_text(
        "<configuration><property><name>fs.defaultFS</name><value>file:///</value></property></configuration>"
    )
    command = [java, "-Xmx768m", "--add-opens", "java.base/java.lang=ALL-UNNAMED", "-cp", f"{_yarn_jars()}/*"]
    command += [str(HERE / "MiniYarn.java"), str(conf)]
    with _daemon(command, dict(os.environ), scratch / "yarn.log", "READY", cwd=scratch):
        home = _spark_home(environment)
        settings = {
            "spark.submit.deployMode": "client",
            "spark.yarn.jars": f"local:{home}/jars/*",
            "spark.yarn.stagingDir": str(scratch / "staging"),
            "spark.yarn.am.memory": "512m",
            "spark.executor.instances": "2",
        }
        variables = {"HADOOP_CONF_DIR": str(conf), "YARN_CONF_DIR": str(conf)}
        yield Cluster("yarn", settings, variables)


CLUSTERS: dict[str, Callable[[Environment, Path], object]] = {
    "local": embedded,
    "Standalone": standalone,
    "YARN": yarn,
}


@contextmanager
def _daemon(
    command: list[str], variables: dict[str, str], log: Path, ready: str, cwd: Path | None = None
) -> Iterator[None]:
    """A process that is up once its log says so; ended with the block."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, env=variables, stdout=out, stderr=subprocess.STDOUT, cwd=cwd, start_new_session=True
        )
    try:
        deadline_s = time.monotonic() + _START_WAIT_S
        while ready not in log.read_text(errors="replace"):
            if process.poll() is not None or time.monotonic() > deadline_s:
                said = log.read_text(errors="replace").strip().splitlines() or ["nothing"]
                raise NoEnvironment(f"{command[0]} did not start: {said[-1]}")
            time.sleep(0.2)
        yield
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()


def _yarn_jars() -> Path:
    """Hadoop's daemons, from Maven Central."""
    folder = cache() / "yarn-3.4.1"
    if not (folder / "ready").exists():
        maven = shutil.which("mvn")
        if maven is None:
            raise NoEnvironment("Maven is not installed: YARN's jars cannot be fetched")
        command = [maven, "-q", "-B", "-f", str(HERE / "yarn-pom.xml"), "dependency:copy-dependencies"]
        done = subprocess.run(
            [*command, f"-DoutputDirectory={folder}"], capture_output=True, text=True, timeout=900, check=False
        )
        if done.returncode != 0:
            raise NoEnvironment(f"Maven could not fetch YARN's jars: {done.stdout.strip().splitlines()[:1]}")
        (folder / "ready").touch()
    return folder


def _spark_home(environment: Environment) -> Path:
    line = "import pyspark, pathlib; print(pathlib.Path(pyspark.__file__).parent)"
    found = subprocess.run([str(environment.python), "-c", line], capture_output=True, text=True, check=True)
    return Path(found.stdout.strip())


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])
