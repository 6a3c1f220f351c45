package measure

import (
	"fmt"
	"math"
	"testing"
	"time"

	"h100-inference-control-plane/runner/engine"
	"h100-inference-control-plane/runner/record"
)

var edgeSeries = []engine.Series{
	{Quantity: engine.QGenerationTokens, Kind: engine.Counter, Names: []string{"tokens_total", "old_tokens_total"}},
	{Quantity: engine.QTTFT, Kind: engine.Histogram, Names: []string{"ttft"}},
	{Quantity: engine.QRunning, Kind: engine.Gauge, Names: []string{"running"}},
	{Quantity: engine.QProcessStart, Kind: engine.Gauge, Names: []string{"start"}},
}

func TestEdges(t *testing.T) {
	scrape := func(text string) *Scrape {
		t.Helper()
		s, err := ParseExposition(time.Unix(0, 0), []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	show := func(v *float64) string {
		if v == nil {
			return "null"
		}
		return fmt.Sprint(*v)
	}
	const types = "# TYPE tokens_total counter\n# TYPE old_tokens_total counter\n# TYPE ttft histogram\n# TYPE start gauge\n"
	f := func(first, last, tokens, ttft, restarted string) {
		t.Helper()
		r := Edges(edgeSeries, scrape(types+first), scrape(types+last))
		moved := "null"
		if r.Restarted != nil {
			moved = fmt.Sprint(*r.Restarted)
		}
		if got := show(r.Increase[engine.QGenerationTokens]) + " " + show(r.Mean[engine.QTTFT]) + " " + moved; got != tokens+" "+ttft+" "+restarted {
			t.Errorf("from %q to %q: %s, want %s %s %s", first, last, got, tokens, ttft, restarted)
		}
	}
	f("tokens_total 5\n", "tokens_total 12\n", "7", "null", "null")
	f("tokens_total{a=\"1\"} 5\ntokens_total{a=\"2\"} 1\n", "tokens_total{a=\"2\"} 2\ntokens_total{a=\"1\"} 6\n", "2", "null", "null")
	f("", "tokens_total{a=\"1\"} 6\n", "6", "null", "null")                          // born in the window
	f("tokens_total 5\n", "tokens_total 3\n", "3", "null", "null")                   // reset
	f("old_tokens_total 5\n", "old_tokens_total 6\n", "1", "null", "null")           // an older release's name
	f("tokens_total 5\n", "tokens_total 12\ntokens_total 99\n", "7", "null", "null") // repeated: the first counts
	f("tokens_total 5\n", "tokens_total NaN\n", "null", "null", "null")
	f("tokens_total 5\n", "", "null", "null", "null")
	f("ttft_sum 1\nttft_count 2\n", "ttft_sum 4\nttft_count 8\n", "null", "0.5", "null")
	f("ttft_sum 1\nttft_count 2\n", "ttft_sum 1\nttft_count 2\n", "null", "null", "null")
	f("start 10\n", "start 10\n", "null", "null", "false")
	f("start 10\n", "start 11\n", "null", "null", "true")
}

func TestSlack(t *testing.T) {
	first := &Scrape{Samples: []Sample{{Name: "ttft_sum", Value: 100}, {Name: "ttft_count", Value: 10}}}
	last := &Scrape{Samples: []Sample{{Name: "ttft_sum", Value: 300}, {Name: "ttft_count", Value: 14}}}
	if got := Slack(edgeSeries, engine.QTTFT, first, last); math.Abs(got-1e-10) > 1e-20 {
		t.Errorf("slack is %v, want 400e-12 over 4 observations", got)
	}
	if got := Slack(edgeSeries, engine.QTTFT, last, first); got != 0 {
		t.Errorf("without an observation the slack is %v", got)
	}
	if got := Slack(edgeSeries, engine.QGenerationTokens, first, last); got != 0 {
		t.Errorf("of a quantity that is not there the slack is %v", got)
	}
}

func TestRequestValuesBySeries(t *testing.T) {
	ok := record.Record{Sent: 5, FirstToken: 100_000, LastToken: 300_000, End: 400_000, PromptTokens: 7, OutputTokens: 3}
	failed := record.Record{Sent: 5, FirstToken: record.Never, LastToken: record.Never, End: 9, PromptTokens: -1, OutputTokens: -1, Err: record.ErrStatus}
	got := RequestValues([]record.Record{ok, failed})
	for series, want := range map[string]string{
		seriesTTFT: "[0.1 +Inf]", seriesTPOT: "[0.1 +Inf]", seriesLatency: "[0.4 +Inf]", seriesOK: "[1 0]", seriesPrompt: "[7]", seriesCompletion: "[3]",
	} {
		if s := fmt.Sprint(got[series]); s != want {
			t.Errorf("%s: %s, want %s", series, s, want)
		}
	}
}
