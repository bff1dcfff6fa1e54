# frozen_string_literal: true

RSpec.describe "Strict trace continuation" do
  theirs = "5f0c8f3be7a24c019d7e3b2a61d4c807"
  parent = "9be2417c06d35fa8"
  hosted = "https://publickey@o77.ingest.sentry.io/42"
  self_hosted = "https://publickey@sentry.example.com/42"

  # Options that do not exist yet make a test fail, not the file.
  def start(dsn, rate: 1.0, **options)
    perform_basic_setup do |config|
      config.dsn = dsn
      config.release = "shop@7.1.0"
      config.environment = "staging"
      config.traces_sample_rate = rate
      options.each do |name, value|
        expect(config).to respond_to("#{name}=")
        config.public_send("#{name}=", value)
      end
    end
  end

  # What another service sent; org nil leaves the organisation out.
  define_method(:headers) do |org, sampled: "1", baggage: true|
    env = { "sentry-trace" => [theirs, parent, sampled].compact.join("-") }
    return env unless baggage

    items = ["sentry-trace_id=#{theirs}", "sentry-public_key=theirkey", "sentry-release=theirs%401.0", "sentry-sample_rate=0.25"]
    items << "sentry-org_id=#{org}" if org
    env.merge("baggage" => items.join(","))
  end

  def begin_transaction(env)
    continued = Sentry.continue_trace(env, name: "checkout", op: "http.server")
    Sentry.start_transaction(transaction: continued, name: "checkout", op: "http.server")
  end

  def items_of(header)
    header.to_s.split(",").map { |item| item.strip.split("=", 2) }.to_h.transform_keys { |key| key.delete_prefix("sentry-") }
  end

  define_method(:expect_continued) do |transaction|
    expect(transaction.trace_id).to eq(theirs)
    expect(transaction.parent_span_id).to eq(parent)
  end

  define_method(:expect_new_trace) do |transaction|
    expect(transaction.trace_id).to match(/\A[0-9a-f]{32}\z/)
    expect(transaction.trace_id).not_to eq(theirs)
    expect(transaction.parent_span_id).to be_nil
    sent = items_of(transaction.to_baggage)
    expect(sent).to include("trace_id" => transaction.trace_id, "public_key" => "publickey", "release" => "shop%407.1.0")
  end

  decisions = [
    [false, "77", hosted, true, "the same organisation"],
    [false, "77", self_hosted, true, "an organisation in baggage only"],
    [false, nil, hosted, true, "an organisation in the SDK only"],
    [false, nil, self_hosted, true, "no organisation at all"],
    [false, "88", hosted, false, "two organisations"],
    [true, "77", hosted, true, "the same organisation"],
    [true, "77", self_hosted, false, "an organisation in baggage only"],
    [true, nil, hosted, false, "an organisation in the SDK only"],
    [true, nil, self_hosted, true, "no organisation at all"],
    [true, "88", hosted, false, "two organisations"]
  ]

  decisions.each do |strict, org, dsn, carries, words|
    context "with strict_trace_continuation = #{strict} and #{words}" do
      it "#{carries ? 'continues' : 'refuses'} the trace for a transaction" do
        start(dsn, strict_trace_continuation: strict)
        transaction = begin_transaction(headers(org))
        carries ? expect_continued(transaction) : expect_new_trace(transaction)
      end

      it "#{carries ? 'continues' : 'refuses'} the trace given in rack's names" do
        start(dsn, strict_trace_continuation: strict)
        env = headers(org)
        transaction = begin_transaction("HTTP_SENTRY_TRACE" => env["sentry-trace"], "HTTP_BAGGAGE" => env["baggage"])
        carries ? expect_continued(transaction) : expect_new_trace(transaction)
      end

      it "#{carries ? 'continues' : 'refuses'} the trace without tracing" do
        start(dsn, rate: nil, strict_trace_continuation: strict)
        Sentry.continue_trace(headers(org, sampled: nil))
        context = Sentry.get_current_scope.propagation_context
        expect(context.trace_id == theirs).to eq(carries)
        expect(context.parent_span_id).to eq(carries ? parent : nil)
        expect(Sentry.get_traceparent.start_with?("#{theirs}-")).to eq(carries)
        expect(items_of(Sentry.get_baggage)["public_key"]).to eq(carries ? "theirkey" : "publickey")
      end
    end
  end

  context "with a trace header and no baggage" do
    [[false, hosted, true], [true, hosted, false], [true, self_hosted, true]].each do |strict, dsn, carries|
      it "#{carries ? 'continues' : 'refuses'} with strict = #{strict} and #{dsn == hosted ? 'a known' : 'an unknown'} organisation" do
        start(dsn, strict_trace_continuation: strict)
        transaction = begin_transaction(headers(nil, baggage: false))
        carries ? expect_continued(transaction) : expect_new_trace(transaction)
      end
    end
  end

  context "without any new option" do
    it "has strict continuation off and no explicit organisation" do
      start(hosted)
      expect(Sentry.configuration).to respond_to(:strict_trace_continuation)
      expect(Sentry.configuration.strict_trace_continuation).to eq(false)
      expect(Sentry.configuration.org_id).to be_nil
    end

    it "refuses the trace of another organisation" do
      start(hosted)
      expect_new_trace(begin_transaction(headers("88")))
    end

    ["77", nil].each do |org|
      it "continues a trace that does not contradict (#{org || 'none'})" do
        start(hosted)
        expect_continued(begin_transaction(headers(org)))
      end
    end
  end

  context "when a trace was refused" do
    [["0", 1.0, true], ["1", 0.0, false]].each do |sampled, rate, expected|
      it "decides by its own rate, not by the parent's #{sampled}" do
        start(hosted, rate: rate)
        expect(begin_transaction(headers("88", sampled: sampled)).sampled).to eq(expected)
      end
    end

    it "sends its own baggage" do
      start(hosted, strict_trace_continuation: true)
      sent = items_of(begin_transaction(headers("88")).to_baggage)
      expect(sent).to include("org_id" => "77", "environment" => "staging", "public_key" => "publickey", "sample_rate" => "1.0")
    end
  end

  context "when a trace was continued" do
    [["0", 1.0, false], ["1", 0.0, true]].each do |sampled, rate, expected|
      it "keeps the parent's decision #{sampled}" do
        start(hosted, rate: rate)
        expect(begin_transaction(headers("77", sampled: sampled)).sampled).to eq(expected)
      end
    end

    it "passes the baggage on" do
      start(hosted)
      sent = items_of(begin_transaction(headers("77")).to_baggage)
      expect(sent).to include("org_id" => "77", "public_key" => "theirkey", "release" => "theirs%401.0")
    end
  end

  {
    "o123.ingest.sentry.io" => "123",
    "o123.ingest.us.sentry.io" => "123",
    "o7.example.com" => "7",
    "sentry.io" => nil,
    "123.ingest.sentry.io" => nil,
    "org123.ingest.sentry.io" => nil,
    "o.ingest.sentry.io" => nil,
    "o12x.ingest.sentry.io" => nil,
    "relay.o123.ingest.sentry.io" => nil,
    "localhost" => nil
  }.each do |host, org|
    context "with a DSN on #{host}" do
      it "sends #{org || 'no organisation'} from a transaction" do
        start("https://publickey@#{host}/42")
        expect(items_of(begin_transaction({}).to_baggage)["org_id"]).to eq(org)
      end

      it "sends #{org || 'no organisation'} from the propagation context" do
        start("https://publickey@#{host}/42", rate: nil)
        expect(items_of(Sentry.get_baggage)["org_id"]).to eq(org)
        dsc = Sentry.get_current_scope.propagation_context.get_dynamic_sampling_context
        expect(dsc["org_id"]).to eq(org)
      end
    end
  end

  { "a DSN that names another one" => hosted, "a self-hosted DSN" => self_hosted }.each do |words, dsn|
    context "with an explicit org_id and #{words}" do
      it "sends the explicit one" do
        start(dsn, org_id: "1234")
        expect(items_of(begin_transaction({}).to_baggage)["org_id"]).to eq("1234")
        expect(items_of(Sentry.get_baggage)["org_id"]).to eq("1234")
      end

      it "takes a number too" do
        start(dsn, org_id: 1234)
        expect(Sentry.configuration.org_id).to eq("1234")
        expect(items_of(begin_transaction({}).to_baggage)["org_id"]).to eq("1234")
      end

      it "decides for a trace with the same one" do
        start(dsn, org_id: "1234", strict_trace_continuation: true)
        expect_continued(begin_transaction(headers("1234")))
      end

      it "decides against a trace with another one" do
        start(dsn, org_id: "1234")
        expect_new_trace(begin_transaction(headers("77")))
      end
    end
  end
end
