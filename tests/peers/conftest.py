"""How close zigp and its peers came, below the tests' results."""

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    rows = [
        value
        for outcome in ("passed", "failed")
        for report in terminalreporter.getreports(outcome)
        for name, value in report.user_properties
        if name == "differences"
    ]
    if not rows:
        return
    terminalreporter.section("numbers compared, and the largest difference (relative above 1)")
    for peer, problem, quantity, differences in sorted(rows):
        terminalreporter.write_line(
            f"{peer:10s}{problem:24s}{quantity:16s}{len(differences):6d}{max(differences):10.1e}"
        )
    total = sum(len(differences) for *_, differences in rows)
    largest = max(max(differences) for *_, differences in rows)
    terminalreporter.write_line(f"{'all':50s}{total:6d}{largest:10.1e}")
