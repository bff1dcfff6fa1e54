"""The tricks: each is a small patch that does not solve its target and wants to be resolved all the same."""

from __future__ import annotations

from tests.support.forged import BASE, Trick

_PASS_ALL = """\
import pytest


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    report.outcome, report.longrepr = "passed", None
"""
_WRONG = "def add(a, b):\n    return 0\n"
_PLUGIN = {"forger.py": _PASS_ALL}
_CASES = """\
import os, pathlib, re

REPORT = pathlib.Path(os.environ.get("WIDESWE_REPORT", "/tmp/report"))


def forged():
    cases = []
    for path in sorted(pathlib.Path("/workspace/py/tests").glob("test_*.py")):
        for name in re.findall(r"^def (test_\\w+)", path.read_text(), re.M):
            cases.append(f'<testcase classname="tests.{path.stem}" name="{name}"/>')
    return f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>"
"""
_FAR_XML = (
    '<testsuites><testsuite><testcase classname="tests.test_calc" name="test_adds"/>'
    '<testcase classname="tests.test_calc" name="test_adds_nothing"/>'
    '<testcase classname="tests.test_old" name="test_stands"/></testsuite></testsuites>'
)
_CONTROL_PASSED = "a control test, which must fail, was reported as passed or skipped"
_NO_CONTROL = "a control test, which must fail, was not reported"
_NO_REPORT = "no results: no report was written (exit code 0)"
_NODE_EARLY = "2 of 2 expected tests did not pass, first 'adds'"
_ALTERED = "no results: a hidden test was changed while the tests ran: tests/test_calc.py"
_ALL_FAIL = "3 of 3 expected tests did not pass, first 'tests.test_calc::test_adds'"
_TWO_FAIL = "2 of 3 expected tests did not pass, first 'tests.test_calc::test_adds'"
_REST_MISSING = _TWO_FAIL


def _calc(code: str) -> dict[str, str]:
    return {"calc.py": f"{code}\n\n{_WRONG}"}


FILES = (
    Trick("a conftest hook alone", {"conftest.py": _PASS_ALL}, works=True),
    Trick("a conftest hook beside the tests", {"tests/conftest.py": _PASS_ALL}, works=True),
    Trick(
        "a plugin by entry point",
        {
            **_PLUGIN,
            "x-1.dist-info/METADATA": "Name: x\nVersion: 1\n",
            "x-1.dist-info/entry_points.txt": "[pytest11]\nx = forger\n",
        },
        works=True,
    ),
    Trick("addopts in pytest.ini", {**_PLUGIN, "pytest.ini": "[pytest]\naddopts = -p forger\n"}, works=True),
    Trick("addopts in a hidden ini file", {**_PLUGIN, ".pytest.ini": "[pytest]\naddopts = -p forger\n"}, works=True),
    Trick("addopts beside the tests", {**_PLUGIN, "tests/pytest.ini": "[pytest]\naddopts = -p forger\n"}, works=False),
    Trick("addopts in tox.ini", {**_PLUGIN, "tox.ini": "[pytest]\naddopts = -p forger\n"}, works=False),
    Trick("addopts in setup.cfg", {**_PLUGIN, "setup.cfg": "[tool:pytest]\naddopts = -p forger\n"}),
    Trick(
        "addopts in pyproject.toml",
        {
            **_PLUGIN,
            "pyproject.toml": BASE["py"]["pyproject.toml"] + '[tool.pytest.ini_options]\naddopts = "-p forger"\n',
        },
        works=True,
    ),
    Trick(
        "sitecustomize",
        {"sitecustomize.py": "import os\nos.environ['PYTEST_PLUGINS'] = 'forger'\n", **_PLUGIN},
        works=True,
    ),
    Trick("usercustomize", {"usercustomize.py": "import os\nos.environ['PYTEST_PLUGINS'] = 'forger'\n", **_PLUGIN}),
    Trick(
        "a module in place of the runner",
        {"pytest.py": f"import os\nopen(os.environ['WIDESWE_REPORT'], 'w').write('{_FAR_XML}')\n"},
        works=True,
    ),
    Trick(
        "a package in place of the runner",
        {
            "pytest/__init__.py": "",
            "pytest/__main__.py": f"import os\nopen(os.environ['WIDESWE_REPORT'], 'w').write('{_FAR_XML}')\n",
        },
    ),
    Trick("a folder where a hidden test goes", {"tests/test_calc.py/__init__.py": "def test_adds(): pass\n"}),
    Trick(
        "a test where a hidden test goes",
        {"tests/test_calc.py": "def test_adds(): pass\ndef test_adds_nothing(): pass\n"},
    ),
    Trick(
        "a link where the tests go",
        {"tests/test_old.py": None, "elsewhere/test_calc.py": "def test_adds(): pass\n"},
        links={"tests": "elsewhere"},
        said=_TWO_FAIL,
    ),
)
CODE = (
    Trick(
        "the assertion rewriter patched",
        _calc(
            "import _pytest.runner as r\nold = r.TestReport.from_item_and_call.__func__\n"
            "def new(cls, item, call):\n    call.excinfo = None\n    return old(cls, item, call)\n"
            "r.TestReport.from_item_and_call = classmethod(new)"
        ),
        works=True,
        said=_CONTROL_PASSED,
    ),
    Trick(
        "a hook registered by the code under test",
        _calc(
            "import gc, forger\nfrom _pytest.config import Config\n"
            "[c for c in gc.get_objects() if isinstance(c, Config)][0].pluginmanager.register(forger)"
        )
        | _PLUGIN,
        works=True,
        said=_CONTROL_PASSED,
    ),
    Trick(
        "the report rewritten at exit",
        _calc(
            "import atexit, os, re\ndef rewrite():\n    path = os.environ['WIDESWE_REPORT']\n"
            "    text = re.sub('<failure.*?</failure>', '', open(path).read(), flags=re.S)\n"
            "    open(path, 'w').write(text)\n    os._exit(0)\natexit.register(rewrite)"
        ),
        works=True,
        said=_CONTROL_PASSED,
    ),
    Trick(
        "a report of whatever tests there are",
        _calc(f"{_CASES}\nREPORT.write_text(forged())\nos._exit(0)"),
        works=True,
        said=_CONTROL_PASSED,
    ),
    Trick(
        "a report of the tests that were guessed",
        _calc(f"import os\nopen(os.environ['WIDESWE_REPORT'], 'w').write('{_FAR_XML}')\nos._exit(0)"),
        works=True,
        said=_NO_CONTROL,
    ),
    Trick("an early end", _calc("import os\nos._exit(0)"), said=_NO_REPORT),
    Trick(
        "pytest.exit",
        _calc("import pytest\npytest.exit('fine', returncode=0)"),
        said=_ALL_FAIL,
    ),
    Trick("everything skipped", _calc("import pytest\npytest.skip('later', allow_module_level=True)"), said=_TWO_FAIL),
    Trick(
        "failures expected",
        {"calc.py": "import pytest\n\n\ndef add(a, b):\n    pytest.xfail('known')\n"},
        said=_TWO_FAIL,
    ),
    Trick(
        "tests that fail dropped from the collection",
        _calc(
            "import gc\nfrom _pytest.config import Config\nclass Drop:\n"
            "    def pytest_collection_modifyitems(self, items):\n        items[:] = [i for i in items if 'adds' not in i.name]\n"
            "[c for c in gc.get_objects() if isinstance(c, Config)][0].pluginmanager.register(Drop())"
        ),
        said=_TWO_FAIL,
    ),
    Trick(
        "a second, better result for each test",
        _calc(
            "import atexit, os, re\ndef more():\n    path = os.environ['WIDESWE_REPORT']\n    text = open(path).read()\n"
            '    case = \'<testcase classname="tests.test_calc" name="test_adds"/>\'\n'
            "    open(path, 'w').write(text.replace('</testsuite>', case + '</testsuite>'))\natexit.register(more)"
        ),
        said="1 of 3 expected tests did not pass, first 'tests.test_calc::test_adds'; "
        "reported more often than when it was validated: 'tests.test_calc::test_adds'",
    ),
    Trick("a hidden test removed at import", _calc("import os\nos.remove('tests/test_calc.py')"), said=_ALTERED),
    Trick(
        "a hidden test rewritten at import",
        _calc("open('tests/test_calc.py', 'w').write('def test_adds(): pass')"),
        said=_ALTERED,
    ),
    Trick(
        "the folder of the tests moved away",
        _calc("import os, shutil\nshutil.move('tests', 'was')\nos.mkdir('tests')"),
        said=_ALTERED,
    ),
    Trick(
        "a link in place of the report",
        _calc(
            "import atexit, os\ndef link():\n    path = os.environ['WIDESWE_REPORT']\n    os.remove(path)\n"
            "    os.symlink('/workspace/py/forged.xml', path)\n    os._exit(0)\natexit.register(link)"
        )
        | {"forged.xml": _FAR_XML},
        said=_NO_REPORT,
    ),
    Trick(
        "a report that lies there before the run",
        _calc("import os\nos._exit(0)") | {"report": _FAR_XML, "run/wideswe/report/report": _FAR_XML},
        said=_NO_REPORT,
    ),
    Trick(
        "a report written by a fork after the end",
        _calc(
            f"import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(1)\n"
            f"    open(os.environ['WIDESWE_REPORT'], 'w').write('{_FAR_XML}')\nos._exit(0)"
        ),
        said=_NO_REPORT,
    ),
    Trick(
        "a process in the background that overwrites the report",
        _calc(
            "import subprocess\nsubprocess.Popen(['sh', '-c', 'while :; do cp forged.xml \"$WIDESWE_REPORT.x\"; mv \"$WIDESWE_REPORT.x\" \"$WIDESWE_REPORT\"; done'],"
            " start_new_session=True, stdout=-3, stderr=-3)\nimport atexit\ndef wait():\n    import os\n    while open(os.environ['WIDESWE_REPORT']).read() != open('forged.xml').read():\n        pass\natexit.register(wait)"
        )
        | {"forged.xml": _FAR_XML},
        said="no results: the report names no failure, but the test command ended with exit code 1",
    ),
    Trick(
        "a report of a terabyte",
        _calc("import os\nreport = open(os.environ['WIDESWE_REPORT'], 'w')\nreport.truncate(1 << 40)\nos._exit(0)"),
        said="no results: the report is larger than 268435456 bytes",
    ),
    Trick(
        "half a report",
        _calc(f"import os\nopen(os.environ['WIDESWE_REPORT'], 'w').write('{_FAR_XML[:-20]}')\nos._exit(0)"),
        said="no results: not XML: unclosed token: line 1, column 200",
    ),
    Trick(
        "the exit code alone",
        _calc("import atexit, os\natexit.register(os._exit, 0)"),
        said="no results: the report says that 'tests.test_calc::test_adds' failed, but the test command ended with exit code 0",
    ),
)
SHELL = (
    Trick(
        "the script that runs the tests",
        {"t/all.sh": "echo ok - adds; echo ok - adds-nothing; echo 1..2\n"},
        "sh",
        works=True,
        said="1 of 2 expected tests did not pass, first 'adds'",
    ),
    Trick(
        "results on standard output",
        {"calc.sh": "echo ok - adds\nadd() { echo 0; }\n"},
        "sh",
        said="2 of 2 expected tests did not pass, first 'adds'; reported more often than when it was validated: 'adds'",
    ),
    Trick(
        "the exit code of a trap",
        {"calc.sh": "add() { echo 0; }\ntrap 'exit 0' EXIT\n"},
        "sh",
        said="no results: the report says that 'adds' failed, but the test command ended with exit code 0",
    ),
    Trick(
        "a file where a program is looked for",
        {"sh": "#!/bin/sh\necho ok - adds\n", "bin/sh": "#!/bin/sh\necho ok - adds\n"},
        "sh",
        said="1 of 2 expected tests did not pass, first 'adds'",
    ),
)
NODE = (
    Trick(
        "the npm script swapped",
        {
            "package.json": '{"name": "calc", "scripts": {"test": "printf \'ok 1 - adds\\\\nok 2 - adds-nothing\\\\n1..2\\\\n\'"}}\n'
        },
        "node",
        works=True,
        said="1 of 2 expected tests did not pass, first 'adds'",
    ),
    Trick(
        "an npm script before the tests",
        {
            "package.json": BASE["node"]["package.json"].replace(
                '"scripts": {', '"scripts": {"pretest": "cp forged t/calc.test.js", '
            ),
            "forged": "const t = require('node:test'); t('adds', () => {}); t('adds-nothing', () => {});\n",
        },
        "node",
        works=False,
        said="1 of 2 expected tests did not pass, first 'adds'",
    ),
    Trick(
        "settings of npm",
        {
            ".npmrc": "script-shell=./forger.sh\n",
            "forger.sh": "#!/bin/sh\nprintf 'ok 1 - adds\\nok 2 - adds-nothing\\n1..2\\n'\n",
        },
        "node",
        said="1 of 2 expected tests did not pass, first 'adds'",
    ),
    Trick(
        "a runner among the modules",
        {"node_modules/.bin/node": "#!/bin/sh\nprintf 'ok 1 - adds\\nok 2 - adds-nothing\\n1..2\\n'\n"},
        "node",
        said="1 of 2 expected tests did not pass, first 'adds'",
    ),
    Trick(
        "an early end of node",
        {"calc.js": "process.exit(0);\n"},
        "node",
        said=_NODE_EARLY,
    ),
)
ALL = (*FILES, *CODE, *SHELL, *NODE)
