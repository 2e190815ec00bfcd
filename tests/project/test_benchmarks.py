"""The page of performance says what was measured."""

import check
import page


def test_the_page_of_performance_is_what_the_results_make_of_it():
    results = check.read()
    assert page.PAGE.read_text() == page.page(results)
    assert page.page(results) == page.page(dict(reversed(results.items())))


def test_results_meet_the_bars_that_the_page_promises():
    assert check.failures(check.read()) == []
