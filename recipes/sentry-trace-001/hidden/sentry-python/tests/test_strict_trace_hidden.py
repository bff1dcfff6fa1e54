"""Strict trace continuation, seen through the public functions only."""

import pytest

import sentry_sdk
from sentry_sdk.transport import Transport

TRACE_ID = "5f0c8f3be7a24c019d7e3b2a61d4c807"
PARENT_ID = "9be2417c06d35fa8"
HOSTED = "https://publickey@o77.ingest.sentry.io/42"
SELF_HOSTED = "https://publickey@sentry.example.com/42"


class SilentTransport(Transport):
    """Unlike the suite's own fake, it keeps the options, and with them the parsed DSN."""

    def capture_envelope(self, envelope):
        pass


@pytest.fixture
def service(sentry_init):
    """Starts the SDK in a fresh isolation scope with the options that a test names."""

    def start(dsn=HOSTED, **options):
        options.setdefault("traces_sample_rate", 1.0)
        sentry_init(
            dsn=dsn,
            release="shop@7.1.0",
            environment="staging",
            transport=SilentTransport,
            **options,
        )

    with sentry_sdk.isolation_scope() as scope:
        scope.clear()
        yield start


def headers(org=None, sampled="1", baggage=True):
    """What another service sent; org None leaves the organisation out."""
    trace = f"{TRACE_ID}-{PARENT_ID}" + (f"-{sampled}" if sampled else "")
    if not baggage:
        return {"sentry-trace": trace}
    items = [
        f"sentry-trace_id={TRACE_ID}",
        "sentry-public_key=theirkey",
        "sentry-release=theirs%401.0",
        "sentry-sample_rate=0.25",
    ]
    if org is not None:
        items.append(f"sentry-org_id={org}")
    return {"sentry-trace": trace, "baggage": ",".join(items)}


def items_of(baggage):
    """The sentry- items of an outgoing baggage header."""
    pairs = (item.strip().split("=", 1) for item in (baggage or "").split(",") if item)
    return {
        key[len("sentry-") :]: value
        for key, value in pairs
        if key.startswith("sentry-")
    }


def begin(incoming):
    return sentry_sdk.start_transaction(
        sentry_sdk.continue_trace(incoming, op="http.server", name="checkout")
    )


def assert_continued(transaction):
    assert transaction.trace_id == TRACE_ID
    assert transaction.parent_span_id == PARENT_ID


def assert_new_trace(transaction):
    assert transaction.trace_id != TRACE_ID
    assert transaction.parent_span_id is None
    sent = items_of(transaction.get_baggage().serialize())
    assert sent["trace_id"] == transaction.trace_id
    assert sent["public_key"] == "publickey"
    assert sent["release"] == "shop%407.1.0"


DECISIONS = [
    pytest.param(False, "77", HOSTED, True, id="lax-same"),
    pytest.param(False, "77", SELF_HOSTED, True, id="lax-only_baggage"),
    pytest.param(False, None, HOSTED, True, id="lax-only_sdk"),
    pytest.param(False, None, SELF_HOSTED, True, id="lax-neither"),
    pytest.param(False, "88", HOSTED, False, id="lax-different"),
    pytest.param(True, "77", HOSTED, True, id="strict-same"),
    pytest.param(True, "77", SELF_HOSTED, False, id="strict-only_baggage"),
    pytest.param(True, None, HOSTED, False, id="strict-only_sdk"),
    pytest.param(True, None, SELF_HOSTED, True, id="strict-neither"),
    pytest.param(True, "88", HOSTED, False, id="strict-different"),
]


@pytest.mark.parametrize(("strict", "org", "dsn", "carries"), DECISIONS)
def test_decision_for_a_transaction(service, strict, org, dsn, carries):
    service(dsn, strict_trace_continuation=strict)
    with begin(headers(org)) as transaction:
        if carries:
            assert_continued(transaction)
        else:
            assert_new_trace(transaction)


@pytest.mark.parametrize(("strict", "org", "dsn", "carries"), DECISIONS)
def test_decision_without_tracing(service, strict, org, dsn, carries):
    service(dsn, strict_trace_continuation=strict, traces_sample_rate=None)
    sentry_sdk.continue_trace(headers(org, sampled=None))
    assert sentry_sdk.get_traceparent().startswith(TRACE_ID + "-") is carries
    sent = items_of(sentry_sdk.get_baggage())
    assert sent["public_key"] == ("theirkey" if carries else "publickey")


@pytest.mark.parametrize(("strict", "org", "dsn", "carries"), DECISIONS)
def test_decision_for_wsgi_names_of_headers(service, strict, org, dsn, carries):
    service(dsn, strict_trace_continuation=strict)
    incoming = headers(org)
    environ = {
        "HTTP_SENTRY_TRACE": incoming["sentry-trace"],
        "HTTP_BAGGAGE": incoming["baggage"],
    }
    with begin(environ) as transaction:
        if carries:
            assert_continued(transaction)
        else:
            assert_new_trace(transaction)


@pytest.mark.parametrize(
    ("strict", "dsn", "carries"),
    [
        pytest.param(False, HOSTED, True, id="lax-known"),
        pytest.param(True, HOSTED, False, id="strict-known"),
        pytest.param(True, SELF_HOSTED, True, id="strict-unknown"),
    ],
)
def test_trace_header_without_baggage(service, strict, dsn, carries):
    service(dsn, strict_trace_continuation=strict)
    with begin(headers(baggage=False)) as transaction:
        if carries:
            assert_continued(transaction)
        else:
            assert_new_trace(transaction)


def test_strict_is_off_by_default(service):
    service()
    assert sentry_sdk.get_client().options["strict_trace_continuation"] is False


def test_different_organisation_is_refused_without_any_option(service):
    service()
    with begin(headers("88")) as transaction:
        assert_new_trace(transaction)


@pytest.mark.parametrize("org", ["77", None])
def test_default_continues_what_does_not_contradict(service, org):
    service()
    with begin(headers(org)) as transaction:
        assert_continued(transaction)


@pytest.mark.parametrize(("parent", "rate", "sampled"), [("0", 1.0, True), ("1", 0.0, False)])
def test_refused_trace_keeps_our_sampling(service, parent, rate, sampled):
    service(traces_sample_rate=rate)
    with begin(headers("88", sampled=parent)) as transaction:
        assert transaction.sampled is sampled


@pytest.mark.parametrize(("parent", "rate", "sampled"), [("0", 1.0, False), ("1", 0.0, True)])
def test_continued_trace_keeps_parent_sampling(service, parent, rate, sampled):
    service(traces_sample_rate=rate)
    with begin(headers("77", sampled=parent)) as transaction:
        assert transaction.sampled is sampled


def test_refused_trace_sends_our_own_baggage(service):
    service(strict_trace_continuation=True)
    with begin(headers("88")) as transaction:
        sent = items_of(dict(transaction.iter_headers())["baggage"])
    assert sent["org_id"] == "77"
    assert sent["environment"] == "staging"
    assert sent["public_key"] == "publickey"
    assert sent["sample_rate"] == "1.0"


def test_continued_trace_passes_baggage_on(service):
    service()
    with begin(headers("77")) as transaction:
        sent = items_of(dict(transaction.iter_headers())["baggage"])
    assert sent["org_id"] == "77"
    assert sent["public_key"] == "theirkey"
    assert sent["release"] == "theirs%401.0"


HOSTS = {
    "o123.ingest.sentry.io": "123",
    "o123.ingest.us.sentry.io": "123",
    "o7.example.com": "7",
    "sentry.io": None,
    "123.ingest.sentry.io": None,
    "org123.ingest.sentry.io": None,
    "o.ingest.sentry.io": None,
    "o12x.ingest.sentry.io": None,
    "relay.o123.ingest.sentry.io": None,
    "localhost": None,
}


@pytest.mark.parametrize(("host", "org"), HOSTS.items(), ids=HOSTS)
def test_org_id_from_dsn_in_transaction_baggage(service, host, org):
    service(f"https://publickey@{host}/42")
    with sentry_sdk.start_transaction(name="checkout") as transaction:
        sent = items_of(dict(transaction.iter_headers())["baggage"])
    assert sent.get("org_id") == org


@pytest.mark.parametrize(("host", "org"), HOSTS.items(), ids=HOSTS)
def test_org_id_from_dsn_in_propagation_context(service, host, org):
    service(f"https://publickey@{host}/42", traces_sample_rate=None)
    sentry_sdk.get_isolation_scope().generate_propagation_context()
    assert items_of(sentry_sdk.get_baggage()).get("org_id") == org


@pytest.mark.parametrize("dsn", [HOSTED, SELF_HOSTED], ids=["hosted", "self_hosted"])
def test_explicit_org_id_goes_out(service, dsn):
    service(dsn, org_id="1234")
    with sentry_sdk.start_transaction(name="checkout") as transaction:
        sent = items_of(dict(transaction.iter_headers())["baggage"])
    assert sent["org_id"] == "1234"


@pytest.mark.parametrize("dsn", [HOSTED, SELF_HOSTED], ids=["hosted", "self_hosted"])
def test_explicit_org_id_decides_for(service, dsn):
    service(dsn, org_id="1234", strict_trace_continuation=True)
    with begin(headers("1234")) as transaction:
        assert_continued(transaction)


@pytest.mark.parametrize("dsn", [HOSTED, SELF_HOSTED], ids=["hosted", "self_hosted"])
def test_explicit_org_id_decides_against(service, dsn):
    service(dsn, org_id="1234")
    with begin(headers("77")) as transaction:
        assert_new_trace(transaction)
