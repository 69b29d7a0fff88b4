"""The verdict as JUnit XML."""

from pathlib import Path
from xml.etree import ElementTree as ET

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.verdict.slo import SloResult, SloStatus
from lagbench.core.verdict.verdict import Verdict
from lagbench.report.junit import junit_xml, write_junit


def parsed(text: str) -> ET.Element:
    """Return the document's root."""
    return ET.fromstring(text.encode())  # noqa: S314 - our own output


def slo(name: str, status: SloStatus, reason: str = "because") -> SloResult:
    """Return an SLO's result."""
    return SloResult(
        name=name,
        title=name.title(),
        threshold="at most 5 s",
        value=3.5,
        unit="s",
        status=status,
        reason=reason,
    )


ALL = Verdict(
    run_id="run-1",
    status="fail",
    reasons=("B: because",),
    slos=(
        slo("a", "pass"),
        slo("b", "fail", "pod <x> & \x00 co"),
        slo("c", "undetermined"),
        slo("d", "not_judged"),
    ),
)


def test_each_status_has_its_element() -> None:
    """Failure, error and skipped, with counts on the suite."""
    suite = parsed(junit_xml(ALL))

    assert {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "4",
        "failures": "1",
        "errors": "1",
        "skipped": "1",
    }
    assert {case.get("name"): [child.tag for child in case] for case in suite} == {
        "a": ["system-out"],
        "b": ["failure"],
        "c": ["error"],
        "d": ["skipped"],
    }


def test_the_message_has_value_limit_and_reason() -> None:
    """What XML cannot hold is left out."""
    suite = parsed(junit_xml(ALL))

    failure = suite.find("testcase[@name='b']/failure")
    assert failure is not None
    assert failure.get("message") == "B: 3.5 s (at most 5 s). pod <x> &  co"


def test_an_undetermined_run_never_reads_as_a_pass() -> None:
    """Every SLO passes, but the run was not drained: one more testcase with an error."""
    verdict = ALL.model_copy(
        update={
            "status": "undetermined",
            "reasons": ("3 messages were not consumed",),
            "slos": ALL.slos[:1],
        }
    )

    suite = parsed(junit_xml(verdict))

    assert (suite.get("tests"), suite.get("errors")) == ("2", "1")
    error = suite.find("testcase[@name='run']/error")
    assert error is not None
    assert error.get("message") == "3 messages were not consumed"


def test_the_file_is_written_from_the_verdict(tmp_path: Path) -> None:
    """junit.xml lies in the run folder."""
    folder = RunFolder.create("run-1", tmp_path)
    folder.write_json(folder.verdict, ALL.model_dump(mode="json"))

    path = write_junit(folder)

    assert path == folder.junit
    assert parsed(path.read_text()).get("name") == "lagbench.run-1"


def test_notes_are_the_suites_output() -> None:
    """They decide nothing, so no testcase has them."""
    suite = parsed(junit_xml(ALL.model_copy(update={"notes": ("12 replicas", "a gap")})))

    assert suite.findtext("system-out") == "12 replicas\na gap"
    assert suite.get("tests") == "4"


def test_a_claim_that_holds_was_measured() -> None:
    """It has no number, and says yes instead."""
    claim = ALL.slos[0].model_copy(update={"threshold": "must hold", "value": None})
    suite = parsed(junit_xml(ALL.model_copy(update={"slos": (claim,)})))

    assert (suite.findtext("testcase/system-out") or "").startswith("A: yes (must hold).")


def test_the_reason_of_an_invalid_run_is_reported_once() -> None:
    """In an error of its own: the SLOs say what was measured."""
    invalid = ALL.model_copy(
        update={"status": "undetermined", "reasons": ("late",), "invalid": ("late",)}
    )

    suite = parsed(junit_xml(invalid))

    errors = [error.get("message") for error in suite.iter("error")]
    assert errors.count("late") == 1
    assert suite.get("errors") == "2"
