from __future__ import annotations

from packager.build.audit_needles import Finder, extract_needles
from packager.build.audit_secrets import added_lines, derive_secrets
from packager.lock.git_objects import object_id

PATCH = b"""diff --git a/x.sql b/x.sql
index 1111111111111111111111111111111111111111..2222222222222222222222222222222222222222 100644
--- a/x.sql
+++ b/x.sql
@@ -1,2 +1,4 @@ context
 kept line
--- an old comment
+++ a line that starts with two plus signs
+def normalise_header_value(text):
 last
@@ -9 +10 @@
-x
+    return existing_helper_call(text, default_limit=3)
\\ No newline at end of file
diff --git a/gone b/gone
index 3333333333333333333333333333333333333333..0000000000000000000000000000000000000000
--- a/gone
+++ /dev/null
@@ -1 +0,0 @@
-gone
"""


def test_added_lines_are_those_of_hunks_and_not_of_headers() -> None:
    assert added_lines(PATCH) == [
        b"++ a line that starts with two plus signs",
        b"def normalise_header_value(text):",
        b"    return existing_helper_call(text, default_limit=3)",
    ]


def test_only_names_that_the_secret_defines_are_identifiers() -> None:
    needles = extract_needles("gold of x", added_lines(PATCH))
    assert set(needles.identifiers) == {b"normalise_header_value"}


def test_definitions_of_many_languages_are_identifiers() -> None:
    lines = [
        b"func (c *Client) parseOrgNumber(x int) {",
        b'\tStrictContinuation bool `json:"strict"`',
        b"attr_accessor :strict_continuation",
        b"  self.max_retry_count = 3",
        b"export const userAgentName = 1",
        b'    "trace_sample_ratio": 0.1,',
        b"pub fn parse_header_line(x: &str) {",
        b"if self.used_elsewhere_only == other_used_name:",
    ]
    assert set(extract_needles("gold of x", lines).identifiers) == {
        b"parseOrgNumber",
        b"StrictContinuation",
        b"strict_continuation",
        b"max_retry_count",
        b"userAgentName",
        b"trace_sample_ratio",
        b"parse_header_line",
    }


def test_what_is_public_is_no_secret() -> None:
    hidden = {
        "x": {
            "tests/test_new.py": b"def test_normalise_header_twice():\n    assert normalise('a') == 'a'  # plain\n",
            "tests/data": b"same",
        }
    }
    public = [
        b"call normalise_header_value later",
        b"def test_other():\n  assert normalise('a')  ==  'a'  # plain\n",
        b"same",
    ]
    secrets = derive_secrets({"x": PATCH}, hidden, public)
    assert set(secrets.needles.identifiers) == {b"test_normalise_header_twice"}
    assert b"assert normalise('a') == 'a' # plain" not in secrets.needles.lines
    assert secrets.blobs == {
        "2" * 40: "gold of x",
        object_id("blob", hidden["x"]["tests/test_new.py"]): "hidden tests of x",
    }


def test_weak_lines_count_only_together() -> None:
    lines = [b"alpha beta gamma one", b"alpha beta gamma two", b"alpha beta gamma three", b"alpha beta gamma four"]
    finder = Finder(extract_needles("gold of x", lines))
    assert finder.judge(finder.find(b"\n".join(lines[:2]))) == {}
    assert finder.judge(finder.find(b"\n".join(lines[:3]))) == {"gold of x": sorted(lines[:3])}
    alone = Finder(extract_needles("gold of y", lines[:1]))
    assert alone.judge(alone.find(b"> Alpha; alpha  beta gamma\tone <")) == {"gold of y": lines[:1]}
