"""When a host counts as saturated, what is done about it, and where the reading comes from."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.adapters.host import hostwatch
from tidegate.adapters.host.hostwatch import HostWatch
from tidegate.adapters.host.probes import NoProbe, PerfProbe, PressureProbe, ResctrlProbe, choose_probe
from tidegate.domain import HostSignal
from tidegate.evaluate.saturation import SaturationMemory, judge


def learned(**changes: float) -> SaturationMemory:
    memory = SaturationMemory()
    for _ in range(60):
        judge(memory, {"app": (0.005, 100.0)}, HostSignal("resctrl", bandwidth_bytes_per_s=1e9))
    return memory


def test_abnormal_bandwidth_and_slow_rows_cap_the_demand_and_the_cap_comes_back() -> None:
    memory = learned()
    for _ in range(5):
        verdict = judge(memory, {"app": (0.007, 100.0)}, HostSignal("resctrl", bandwidth_bytes_per_s=3e9))
    assert verdict.cap == pytest.approx(0.9**5)
    assert verdict.reason is not None
    assert "3.0 times the usual (resctrl)" in verdict.reason.text
    for _ in range(60):
        verdict = judge(memory, {"app": (0.005, 100.0)}, HostSignal("resctrl", bandwidth_bytes_per_s=1e9))
    assert verdict.cap == 1.0


def test_neither_busy_memory_nor_dear_rows_alone_are_saturation() -> None:
    busy = judge(learned(), {"app": (0.005, 100.0)}, HostSignal("resctrl", bandwidth_bytes_per_s=3e9))
    dear = judge(learned(), {"app": (0.008, 100.0)}, HostSignal("resctrl", bandwidth_bytes_per_s=1e9))
    assert busy.cap == dear.cap == 1.0


@pytest.mark.parametrize(
    ("signal", "capped"),
    [
        (HostSignal("pressure", cpu_pressure=0.8), False),
        (HostSignal("pressure", memory_pressure=0.3), True),
        (HostSignal("pressure", cpu_pressure=0.2, memory_pressure=0.0), False),
        (None, False),
    ],
)
def test_pressure_stands_in_where_bandwidth_is_unknown(signal: HostSignal | None, capped: bool) -> None:
    assert (judge(learned(), {"app": (0.007, 100.0)}, signal).cap < 1) is capped


def test_without_a_reading_only_much_slower_rows_count() -> None:
    assert judge(learned(), {"app": (0.009, 100.0)}, None).cap < 1


def test_a_wait_for_processors_counts_with_much_slower_rows_only() -> None:
    signal = HostSignal("pressure", cpu_pressure=0.8)
    assert judge(learned(), {"app": (0.007, 100.0)}, signal).cap == 1
    assert judge(learned(), {"app": (0.009, 100.0)}, signal).cap < 1


def test_the_cap_has_an_end_and_gone_applications_are_forgotten() -> None:
    memory = learned()
    for _ in range(100):
        judge(memory, {"app": (0.05, 100.0)}, HostSignal("pressure", cpu_pressure=1.0))
    assert memory.cap == 0.5
    judge(memory, {"other": (0.01, 1.0)}, None)
    assert set(memory.row_s) == {"other"}


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def pressure(root: Path, cpu: float = 12.5) -> None:
    some = f"some avg10={cpu} avg60=1.00 avg300=0.50 total=1\n"
    write(root / "proc/pressure/cpu", some + "full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n")
    write(root / "proc/pressure/memory", "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n")


def test_resctrl_counts_the_bytes_of_all_domains(tmp_path: Path) -> None:
    pressure(tmp_path)
    counters = [tmp_path / f"sys/fs/resctrl/mon_data/mon_L3_0{index}/mbm_total_bytes" for index in (0, 1)]
    for counter in counters:
        write(counter, "1000\n")
    probe = choose_probe(tmp_path)
    assert isinstance(probe, ResctrlProbe)
    assert probe.read(10.0) is None
    for counter in counters:
        write(counter, "3000\n")
    assert probe.read(12.0) == HostSignal("resctrl", bandwidth_bytes_per_s=2000.0)
    write(counters[0], "Unavailable\n")
    assert probe.read(13.0) is None


def test_perf_reads_the_memory_controllers(tmp_path: Path) -> None:
    for event in ("cas_count_read", "cas_count_write"):
        write(tmp_path / f"sys/bus/event_source/devices/uncore_imc_0/events/{event}", "event=0x04\n")
    perf = tmp_path / "perf"
    perf.write_text("#!/bin/sh\necho '10.0,MiB,uncore_imc_0/cas_count_read/,1,100.00,,' >&2\n")
    perf.chmod(0o755)
    signal = PerfProbe(tmp_path, str(perf)).read(0.0)
    assert signal is not None
    assert signal.bandwidth_bytes_per_s == pytest.approx(10 * 2**20 / 0.05)
    perf.write_text("#!/bin/sh\nexit 255\n")
    assert not PerfProbe(tmp_path, str(perf)).available


def test_pressure_is_the_fallback_and_nothing_is_said_so(tmp_path: Path) -> None:
    assert isinstance(choose_probe(tmp_path), NoProbe)
    pressure(tmp_path)
    probe = choose_probe(tmp_path)
    assert isinstance(probe, PressureProbe)
    assert probe.read(0.0) == HostSignal("pressure", cpu_pressure=0.125, memory_pressure=0.0)
    write(tmp_path / "proc/pressure/cpu", "garbage")
    write(tmp_path / "proc/pressure/memory", "garbage")
    assert probe.read(1.0) is None


def test_a_user_is_told_which_probe_is_in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hostwatch, "choose_probe", lambda: choose_probe(tmp_path))
    without = HostWatch(works_here=True).capability()
    assert (without.actuator, without.able) == ("saturation", False)
    assert without.reason.startswith(
        "this machine shows neither memory bandwidth nor pressure stalls; only service times"
    )
    pressure(tmp_path)
    found = HostWatch(works_here=True).capability()
    assert found.able
    assert found.reason == "by the kernel's pressure stalls, if rows are slower than learned too"


def test_a_user_is_told_what_counts_for_executors_on_other_machines() -> None:
    watch = HostWatch(works_here=False)
    told = watch.capability()
    assert not told.able
    assert told.reason == (
        "executors run on machines that cannot be probed from the driver; only service times count, from 1.5 times the "
        "learned cost of a row"
    )
    assert watch.sample().signal is None, "the driver's machine says nothing about theirs"


@pytest.mark.parametrize("probe", [ResctrlProbe, PerfProbe, PressureProbe])
def test_every_probe_can_be_named(probe: type[ResctrlProbe | PerfProbe | PressureProbe]) -> None:
    assert probe.name in hostwatch._PROBES
