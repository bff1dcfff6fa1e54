package sentry_test

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/getsentry/sentry-go"
)

// The options under test do not exist before the change, so they are set by name: the file compiles either way.

const (
	incomingTraceID  = "5f0c8f3be7a24c019d7e3b2a61d4c807"
	incomingParentID = "9be2417c06d35fa8"
	hostedDSN        = "https://publickey@o77.ingest.sentry.io/42"
	selfHostedDSN    = "https://publickey@sentry.example.com/42"
)

type silentTransport struct{}

func (silentTransport) Flush(time.Duration) bool              { return true }
func (silentTransport) FlushWithContext(context.Context) bool { return true }
func (silentTransport) Configure(sentry.ClientOptions)        {}
func (silentTransport) SendEvent(*sentry.Event)               {}
func (silentTransport) Close()                                {}

type setting func(t *testing.T, options *sentry.ClientOptions)

func optionField(t *testing.T, options *sentry.ClientOptions, name string, kind reflect.Kind) reflect.Value {
	t.Helper()
	field := reflect.ValueOf(options).Elem().FieldByName(name)
	if !field.IsValid() {
		t.Fatalf("ClientOptions has no field %s", name)
	}
	if field.Kind() != kind {
		t.Fatalf("ClientOptions.%s is a %s, want a %s", name, field.Kind(), kind)
	}
	return field
}

func strict(on bool) setting {
	return func(t *testing.T, options *sentry.ClientOptions) {
		t.Helper()
		optionField(t, options, "StrictTraceContinuation", reflect.Bool).SetBool(on)
	}
}

func orgID(id uint64) setting {
	return func(t *testing.T, options *sentry.ClientOptions) {
		t.Helper()
		optionField(t, options, "OrgID", reflect.Uint64).SetUint(id)
	}
}

func noTracing(_ *testing.T, options *sentry.ClientOptions) {
	options.EnableTracing = false
	options.TracesSampleRate = 0
}

func sampleRate(rate float64) setting {
	return func(_ *testing.T, options *sentry.ClientOptions) { options.TracesSampleRate = rate }
}

func newHub(t *testing.T, dsn string, settings ...setting) *sentry.Hub {
	t.Helper()
	options := sentry.ClientOptions{
		Dsn:              dsn,
		Release:          "shop@7.1.0",
		Environment:      "staging",
		EnableTracing:    true,
		TracesSampleRate: 1.0,
		Transport:        silentTransport{},
	}
	for _, set := range settings {
		set(t, &options)
	}
	client, err := sentry.NewClient(options)
	if err != nil {
		t.Fatal(err)
	}
	return sentry.NewHub(client, sentry.NewScope())
}

func contextOf(hub *sentry.Hub) context.Context {
	return sentry.SetHubOnContext(context.Background(), hub)
}

func traceHeader(sampled string) string {
	header := incomingTraceID + "-" + incomingParentID
	if sampled != "" {
		header += "-" + sampled
	}
	return header
}

// baggageFrom is what another service sent; org "" leaves the organisation out.
func baggageFrom(org string) string {
	header := "sentry-trace_id=" + incomingTraceID + ",sentry-public_key=theirkey,sentry-release=theirs%401.0,sentry-sample_rate=0.25"
	if org != "" {
		header += ",sentry-org_id=" + org
	}
	return header
}

// entries reads a baggage header back, without the sentry- prefix.
func entries(t *testing.T, header string) map[string]string {
	t.Helper()
	dsc, err := sentry.DynamicSamplingContextFromHeader([]byte(header))
	if err != nil {
		t.Fatalf("outgoing baggage %q cannot be read: %v", header, err)
	}
	return dsc.Entries
}

func wantOrg(t *testing.T, found map[string]string, want string) {
	t.Helper()
	got, present := found["org_id"]
	switch {
	case want == "" && present:
		t.Errorf("org_id = %q, want none", got)
	case want != "" && got != want:
		t.Errorf("org_id = %q, want %q", got, want)
	}
}

func wantContinued(t *testing.T, span *sentry.Span) {
	t.Helper()
	if got := span.TraceID.String(); got != incomingTraceID {
		t.Errorf("trace id = %s, want the incoming %s", got, incomingTraceID)
	}
	if got := span.ParentSpanID.String(); got != incomingParentID {
		t.Errorf("parent span id = %s, want the incoming %s", got, incomingParentID)
	}
}

func wantNewTrace(t *testing.T, span *sentry.Span) {
	t.Helper()
	if got := span.TraceID.String(); got == incomingTraceID || got == strings.Repeat("0", 32) {
		t.Errorf("trace id = %s, want a new one", got)
	}
	if span.ParentSpanID != (sentry.SpanID{}) {
		t.Errorf("parent span id = %s, want none", span.ParentSpanID)
	}
	out := entries(t, span.ToBaggage())
	if out["trace_id"] != span.TraceID.String() || out["public_key"] != "publickey" || out["release"] != "shop@7.1.0" {
		t.Errorf("outgoing baggage = %v, want that of the head of a trace", out)
	}
}

type decision struct {
	strict  bool
	baggage string
	sdk     string
	carries bool
}

var decisions = []decision{
	{strict: false, baggage: "77", sdk: "77", carries: true},
	{strict: false, baggage: "77", sdk: "", carries: true},
	{strict: false, baggage: "", sdk: "77", carries: true},
	{strict: false, baggage: "", sdk: "", carries: true},
	{strict: false, baggage: "88", sdk: "77", carries: false},
	{strict: true, baggage: "77", sdk: "77", carries: true},
	{strict: true, baggage: "77", sdk: "", carries: false},
	{strict: true, baggage: "", sdk: "77", carries: false},
	{strict: true, baggage: "", sdk: "", carries: true},
	{strict: true, baggage: "88", sdk: "77", carries: false},
}

func (d decision) name() string {
	word := func(id string) string {
		if id == "" {
			return "none"
		}
		return id
	}
	return fmt.Sprintf("strict=%t_baggage=%s_sdk=%s", d.strict, word(d.baggage), word(d.sdk))
}

func (d decision) dsn() string {
	if d.sdk == "" {
		return selfHostedDSN
	}
	return hostedDSN
}

func TestHiddenStrictTraceDecision(t *testing.T) {
	doors := map[string]func(hub *sentry.Hub, trace, baggage string) sentry.SpanOption{
		"ContinueTrace": sentry.ContinueTrace,
		"ContinueFromHeaders": func(_ *sentry.Hub, trace, baggage string) sentry.SpanOption {
			return sentry.ContinueFromHeaders(trace, baggage)
		},
		"ContinueFromRequest": func(_ *sentry.Hub, trace, baggage string) sentry.SpanOption {
			request, _ := http.NewRequest(http.MethodGet, "http://shop.example.com/", http.NoBody)
			request.Header.Set(sentry.SentryTraceHeader, trace)
			request.Header.Set(sentry.SentryBaggageHeader, baggage)
			return sentry.ContinueFromRequest(request)
		},
	}
	for door, option := range doors {
		for _, row := range decisions {
			t.Run(door+"/"+row.name(), func(t *testing.T) {
				hub := newHub(t, row.dsn(), strict(row.strict))
				span := sentry.StartTransaction(contextOf(hub), "checkout", option(hub, traceHeader("1"), baggageFrom(row.baggage)))
				if row.carries {
					wantContinued(t, span)
				} else {
					wantNewTrace(t, span)
				}
			})
		}
	}
}

func TestHiddenStrictTraceDecisionWithoutTracing(t *testing.T) {
	for _, row := range decisions {
		t.Run(row.name(), func(t *testing.T) {
			hub := newHub(t, row.dsn(), strict(row.strict), noTracing)
			sentry.ContinueTrace(hub, traceHeader(""), baggageFrom(row.baggage))
			carried := strings.HasPrefix(hub.GetTraceparent(), incomingTraceID+"-")
			if carried != row.carries {
				t.Errorf("traceparent = %s, continued = %t, want %t", hub.GetTraceparent(), carried, row.carries)
			}
			foreign := strings.Contains(hub.GetBaggage(), "theirkey")
			if foreign != row.carries {
				t.Errorf("baggage = %q, holds incoming items = %t, want %t", hub.GetBaggage(), foreign, row.carries)
			}
		})
	}
}

func TestHiddenMismatchNeedsNoOption(t *testing.T) {
	hub := newHub(t, hostedDSN)
	span := sentry.StartTransaction(contextOf(hub), "checkout", sentry.ContinueFromHeaders(traceHeader("1"), baggageFrom("88")))
	wantNewTrace(t, span)
}

func TestHiddenDefaultContinues(t *testing.T) {
	for name, header := range map[string]string{"same": baggageFrom("77"), "no_org": baggageFrom(""), "no_baggage": ""} {
		t.Run(name, func(t *testing.T) {
			hub := newHub(t, hostedDSN)
			span := sentry.StartTransaction(contextOf(hub), "checkout", sentry.ContinueFromHeaders(traceHeader("1"), header))
			wantContinued(t, span)
		})
	}
}

func TestHiddenDefaultsAreOff(t *testing.T) {
	var options sentry.ClientOptions
	if optionField(t, &options, "StrictTraceContinuation", reflect.Bool).Bool() {
		t.Error("StrictTraceContinuation is on by default")
	}
	if id := optionField(t, &options, "OrgID", reflect.Uint64).Uint(); id != 0 {
		t.Errorf("OrgID = %d by default, want 0", id)
	}
}

func TestHiddenTraceHeaderWithoutBaggage(t *testing.T) {
	for _, row := range []struct {
		strict  bool
		dsn     string
		carries bool
	}{{false, hostedDSN, true}, {true, hostedDSN, false}, {true, selfHostedDSN, true}} {
		doors := map[string]sentry.SpanOption{
			"ContinueFromHeaders": sentry.ContinueFromHeaders(traceHeader("1"), ""),
			"ContinueFromTrace":   sentry.ContinueFromTrace(traceHeader("1")),
		}
		for door, option := range doors {
			t.Run(fmt.Sprintf("%s/strict=%t_known=%t", door, row.strict, row.dsn == hostedDSN), func(t *testing.T) {
				hub := newHub(t, row.dsn, strict(row.strict))
				span := sentry.StartTransaction(contextOf(hub), "checkout", option)
				if row.carries {
					wantContinued(t, span)
				} else {
					wantNewTrace(t, span)
				}
			})
		}
	}
}

func TestHiddenRefusedTraceKeepsOwnSampling(t *testing.T) {
	for _, row := range []struct {
		parent string
		rate   float64
		want   sentry.Sampled
	}{{"0", 1.0, sentry.SampledTrue}, {"1", 0.0, sentry.SampledFalse}} {
		t.Run("parent="+row.parent, func(t *testing.T) {
			hub := newHub(t, hostedDSN, sampleRate(row.rate))
			span := sentry.StartTransaction(contextOf(hub), "checkout", sentry.ContinueFromHeaders(traceHeader(row.parent), baggageFrom("88")))
			if span.Sampled != row.want {
				t.Errorf("sampled = %v, want %v", span.Sampled, row.want)
			}
		})
	}
}

func TestHiddenContinuedTraceKeepsParentSampling(t *testing.T) {
	for _, row := range []struct {
		parent string
		rate   float64
		want   sentry.Sampled
	}{{"0", 1.0, sentry.SampledFalse}, {"1", 0.0, sentry.SampledTrue}} {
		t.Run("parent="+row.parent, func(t *testing.T) {
			hub := newHub(t, hostedDSN, sampleRate(row.rate))
			span := sentry.StartTransaction(contextOf(hub), "checkout", sentry.ContinueFromHeaders(traceHeader(row.parent), baggageFrom("77")))
			if span.Sampled != row.want {
				t.Errorf("sampled = %v, want %v", span.Sampled, row.want)
			}
		})
	}
}

func TestHiddenRefusedTraceSendsOwnBaggage(t *testing.T) {
	hub := newHub(t, hostedDSN, strict(true))
	span := sentry.StartTransaction(contextOf(hub), "checkout", sentry.ContinueTrace(hub, traceHeader("1"), baggageFrom("88")))
	out := entries(t, span.ToBaggage())
	wantOrg(t, out, "77")
	if out["environment"] != "staging" || out["public_key"] != "publickey" || out["sample_rate"] != "1" {
		t.Errorf("outgoing baggage = %v, want our own values only", out)
	}
}

func TestHiddenContinuedTracePassesBaggageOn(t *testing.T) {
	hub := newHub(t, hostedDSN)
	span := sentry.StartTransaction(contextOf(hub), "checkout", sentry.ContinueFromHeaders(traceHeader("1"), baggageFrom("77")))
	out := entries(t, span.ToBaggage())
	wantOrg(t, out, "77")
	if out["public_key"] != "theirkey" || out["release"] != "theirs@1.0" {
		t.Errorf("outgoing baggage = %v, want the incoming values", out)
	}
}

var hosts = map[string]string{
	"o123.ingest.sentry.io":                  "123",
	"o123.ingest.us.sentry.io":               "123",
	"o7.example.com":                         "7",
	"o18446744073709551615.ingest.sentry.io": "18446744073709551615",
	"o18446744073709551616.ingest.sentry.io": "",
	"sentry.io":                              "",
	"123.ingest.sentry.io":                   "",
	"org123.ingest.sentry.io":                "",
	"o.ingest.sentry.io":                     "",
	"o12x.ingest.sentry.io":                  "",
	"relay.o123.ingest.sentry.io":            "",
	"localhost":                              "",
}

func TestHiddenOrgIDFromDSN(t *testing.T) {
	for host, want := range hosts {
		t.Run("transaction/"+host, func(t *testing.T) {
			hub := newHub(t, "https://publickey@"+host+"/42")
			span := sentry.StartTransaction(contextOf(hub), "checkout")
			wantOrg(t, entries(t, span.ToBaggage()), want)
			wantOrg(t, sentry.DynamicSamplingContextFromTransaction(span).Entries, want)
		})
		t.Run("scope/"+host, func(t *testing.T) {
			hub := newHub(t, "https://publickey@"+host+"/42", noTracing)
			wantOrg(t, sentry.DynamicSamplingContextFromScope(hub.Scope(), hub.Client()).Entries, want)
		})
	}
}

func TestHiddenExplicitOrgID(t *testing.T) {
	for name, dsn := range map[string]string{"beats_the_DSN": hostedDSN, "fills_in_for_self_hosted": selfHostedDSN} {
		t.Run(name, func(t *testing.T) {
			hub := newHub(t, dsn, orgID(1234), strict(true))
			span := sentry.StartTransaction(contextOf(hub), "checkout")
			wantOrg(t, entries(t, span.ToBaggage()), "1234")
			wantOrg(t, sentry.DynamicSamplingContextFromScope(hub.Scope(), hub.Client()).Entries, "1234")

			same := sentry.StartTransaction(contextOf(hub), "checkout", sentry.ContinueFromHeaders(traceHeader("1"), baggageFrom("1234")))
			wantContinued(t, same)
			other := sentry.StartTransaction(contextOf(hub), "checkout", sentry.ContinueFromHeaders(traceHeader("1"), baggageFrom("77")))
			wantNewTrace(t, other)
		})
	}
}
