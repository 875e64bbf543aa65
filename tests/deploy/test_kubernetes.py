"""The files for Kubernetes fit its schema, fit each other, and hold a policy that Tidegate takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tidegate.control.policyfile import policy_from

FOLDER = Path(__file__).parents[2] / "deploy" / "kubernetes"


def resources() -> list[dict[str, Any]]:
    return [one for path in sorted(FOLDER.glob("*.yaml")) for one in yaml.safe_load_all(path.read_text())]


def named(kind: str) -> dict[str, Any]:
    return next(one for one in resources() if one["kind"] == kind)


@pytest.mark.parametrize("version", ["1.28", "1.37"])
def test_every_resource_fits_the_schema(version: str) -> None:
    validate = pytest.importorskip("kubernetes_validate", reason="pip install kubernetes-validate").validate
    assert len(resources()) == 7
    for one in resources():
        checked = {"metadata": {}, **one}
        validate(checked, version, strict=True)


def test_a_resource_that_does_not_fit_is_noticed() -> None:
    validator = pytest.importorskip("kubernetes_validate", reason="pip install kubernetes-validate")
    broken = {**named("Role"), "rules": [{"verbs": "all"}]}
    with pytest.raises(validator.ValidationError):
        validator.validate(broken, "1.37", strict=True)


def test_the_policy_is_one() -> None:
    policy = policy_from(yaml.safe_load(named("ConfigMap")["data"]["policy.yaml"]))
    assert policy.executors.max == 10


def test_the_files_name_each_other() -> None:
    driver, executor = (yaml.safe_load((FOLDER / f"{role}-pod.yaml").read_text()) for role in ("driver", "executor"))
    volumes = {one["name"]: one for one in driver["spec"]["volumes"]}
    (container,) = driver["spec"]["containers"]
    mounts = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
    assert volumes.keys() == mounts.keys()
    assert volumes["policy"]["configMap"]["name"] == named("ConfigMap")["metadata"]["name"]
    assert (
        volumes["journal"]["persistentVolumeClaim"]["claimName"] == named("PersistentVolumeClaim")["metadata"]["name"]
    )
    policy = policy_from(yaml.safe_load(named("ConfigMap")["data"]["policy.yaml"]))
    assert str(policy.journal.path).startswith(mounts["journal"])
    assert policy.console is not None
    assert container["ports"][0]["containerPort"] == policy.console.port
    binding = named("RoleBinding")
    assert binding["roleRef"]["name"] == named("Role")["metadata"]["name"]
    assert binding["subjects"][0]["name"] == named("ServiceAccount")["metadata"]["name"]
    assert executor["spec"]["terminationGracePeriodSeconds"] >= 30
