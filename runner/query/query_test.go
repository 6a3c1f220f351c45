package query

import (
	"strings"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metricsql"
)

var labels = []Label{{"run", "r1"}, {"trial", `t"1`}}

func TestScopeSuccess(t *testing.T) {
	f := func(in, want string) {
		t.Helper()
		got, err := Scope(in, 30654*time.Millisecond, labels)
		if err != nil {
			t.Fatalf("%s: %v", in, err)
		}
		if got != want {
			t.Errorf("%s\n got %s\nwant %s", in, got, want)
		}
	}
	f(`share_gt_over_time(bench_request_latency_seconds[$window], 2)`,
		`share_gt_over_time(bench_request_latency_seconds{run="r1",trial="t\"1"}[30654ms], 2)`)
	f(`sum(rate(a{x="1" or y="2"}[$window])) by (z)`,
		`sum(rate(a{x="1",run="r1",trial="t\"1" or y="2",run="r1",trial="t\"1"}[30654ms])) by(z)`)
	f(`WITH (r(a)=a/a) r(sum(rate(foo[$window])))`,
		`sum(rate(foo{run="r1",trial="t\"1"}[30654ms])) / sum(rate(foo{run="r1",trial="t\"1"}[30654ms]))`)
	f(`max_over_time(rate(foo[1s])[$window:1s])`,
		`max_over_time(rate(foo{run="r1",trial="t\"1"}[1s])[30654ms:1s])`)
	f(`avg_over_time({__name__="a:b"}[$window])`,
		`avg_over_time(a:b{run="r1",trial="t\"1"}[30654ms])`)
	f(`sum_over_time((foo > bool 3)[$window:1s])`,
		`sum_over_time((foo{run="r1",trial="t\"1"} >bool 3)[30654ms:1s])`)
}

// In a quoted string $window is text.
func TestWindowInText(t *testing.T) {
	got, err := Scope(`sum(increase(a{b="$window"}[$window])) / $window`, 1500*time.Millisecond, labels[:1])
	if want := `sum(increase(a{b="$window",run="r1"}[1500ms])) / 1500ms`; err != nil || got != want {
		t.Errorf("got %s, %v\nwant %s", got, err, want)
	}
}

func TestCheckSuccess(t *testing.T) {
	for _, q := range []string{
		`quantile_over_time(0.99, bench_request_ttft_seconds[$window])`,
		`increase(vllm:prompt_tokens_total[$window]) / increase(vllm:generation_tokens_total[$window])`,
		`histogram_quantile(0.99, sum(increase(vllm:e2e_request_latency_seconds_bucket[$window])) by (le))`,
		`sum(increase(x[$window])) / $window`,
		`sum(count_over_time((foo > 3)[$window:1s]))`,
		`count(rate(x[$window]) >bool 3)`,
		`sum(label_replace(rate(x{a="$b",c='it\'s $d'}[$window]), "e", "${1}-$f", "g", "(.*)")) # $h`,
	} {
		if p := Check(q); len(p) > 0 {
			t.Errorf("%s: %v", q, p)
		}
	}
}

func TestCheckFailure(t *testing.T) {
	f := func(q, want string, offset int) {
		t.Helper()
		p := Check(q)
		if len(p) == 0 {
			t.Fatalf("%s is accepted, want %q", q, want)
		}
		if !strings.Contains(p[0].Message, want) {
			t.Errorf("%s: %q, want %q in it", q, p[0].Message, want)
		}
		if offset >= 0 && p[0].Offset != offset {
			t.Errorf("%s: at %d, want %d", q, p[0].Offset, offset)
		}
		if _, err := Scope(q, time.Second, labels); err == nil {
			t.Errorf("%s: Scope accepts what Check refuses", q)
		}
	}
	f(``, "empty", 0)
	f(`rate(x[$window]`, "not MetricsQL", -1)
	f(`rat(x[$window])`, "not MetricsQL", -1)
	f(`rate(x[$__rate_interval])`, "unknown variable $__rate_interval", 7)
	f(`1 + 2`, "selects no series", 0)
	f(`rate(x{run="other"}[$window])`, `the label "run"`, 7)
	f(`rate(x{a="b" or trial=~".*"}[$window])`, `the label "trial"`, -1)
	f(`quantile_over_time(0.99, x[$window]) < 0.5`, "compares (<)", 37)
	f(`x[$window]`, "range of samples", 0)
	f(`rate(sum(x))`, "hides a subquery", 0)
	f(`sum(x)`, "does not use $window", 0)
	f(`"text"`, "selects no series", 0)
	f(`max(vllm:num_requests_running{run="x"}) + sum(rate(y[$window]))`, `the label "run"`, 30)
	f(`sum(rate(x{run_id="1",a="run=",run!~"b"}[$window])) by (run)`, `the label "run"`, 31)
	f(`sum(rate(x{a!="b < c"}[$window])) < 3`, "compares (<): it would be empty", 34)
	f(`sum(rate(x{a!="b"}[$window])) <bool 3`, "compares (<): its value would be 0 or 1", 30)
	f(`(rate(x[$window]) > 1)`, "compares (>)", 0)
	f(`sum(rate(x{a="$window"}[5m]))`, "does not use $window", 0)
	f("sum(rate(x[5m])) # over $window", "does not use $window", 0)
	f(`sum(rate(x[$window])) + $__range_s`, "unknown variable $__range_s", 24)
	f(`rate(x{__graphite__="a.b"}[$window])`, "__graphite__", 7)
	f(`x[$window:1s]`, "range of samples", 0)
	f("rate(\xcf\xd9[$window])", "not MetricsQL", -1)
	f("rate({\"\xcf\xd9\"}[$window])", "cannot be written", 0)
	f(`sum(rate(x{a="`+strings.Repeat("b", maxLength)+`"}[$window]))`, "bytes long", 0)
	f(`rate(x[$window]) rate(y[$window])`, `at "rate(y[$window])"`, 17)
}

func TestSeries(t *testing.T) {
	got := strings.Join(Series(`rate(b[$window]) / on() rate({__name__="a"}[$window]) + c{d=~"x"}`), ",")
	if got != "a,b,c" {
		t.Errorf("got %s", got)
	}
	if Series("(((") != nil {
		t.Error("an unreadable query has no series")
	}
}

func TestLeftOfQuantiles(t *testing.T) {
	f := func(in, want string) {
		t.Helper()
		got, ok := LeftOfQuantiles(in)
		if ok != (want != "") || ok && got != want {
			t.Errorf("%s: %s, %v; want %s", in, got, ok, want)
		}
	}
	f(`quantile_over_time(0.99, a[1s])`, `quantile_over_time(0.9899999999990996, a[1s])`)
	f(`1000 * Median_Over_Time(a[1s])`, `1000 * quantile_over_time(0.49999999999954525, a[1s])`)
	f(`quantile(1, a) by (b)`, `quantile(0.9999999999990905, a) by(b)`)
	f(`WITH (q(x) = quantile_over_time(0.5, x[1s])) q(a) + q(a)`, `quantile_over_time(0.49999999999954525, a[1s]) + quantile_over_time(0.49999999999954525, a[1s])`)
	f(`max_over_time(a[1s])`, ``)
	f(`quantile_over_time(scalar(b), a[1s])`, ``)
	f(`quantile_over_time(`, ``)
}

func TestSelect(t *testing.T) {
	if got := Select("vllm:a_total", labels); got != `vllm:a_total{run="r1",trial="t\"1"}` {
		t.Errorf("got %s", got)
	}
}

// FuzzScope: what Scope returns parses again, and every or-group of every selector carries every label.
func FuzzScope(f *testing.F) {
	for _, q := range []string{
		`share_gt_over_time(bench_request_latency_seconds[$window], 2)`, `sum(rate(a{x="1" or y="2"}[$window])) by (z)`,
		`WITH (r(a)=a/a) r(sum(rate(foo[$window])))`, `max_over_time(rate(foo[1s])[$window:1s])`, `rate({}[$window])`,
		`rate({__name__=~"a.*" or b="c"}[$window] offset 5m) @ end()`, `x[$window] < 1`, `rate(x{run="a"}[$window])`, `"$window"`,
		`median_over_time(x{a='$window\''}[$window]) + quantile(0.9, rate(y[$window])) by (z) # $window`, "rate(x{a=`\\`}[$window]) / $window",
	} {
		f.Add(q)
	}
	f.Fuzz(func(t *testing.T, q string) {
		got, err := Scope(q, 1234*time.Millisecond, labels)
		if err != nil {
			return
		}
		e, err := metricsql.Parse(got)
		if err != nil {
			t.Fatalf("%q became %q, which does not parse: %v", q, got, err)
		}
		if left, ok := LeftOfQuantiles(got); ok {
			if _, err := metricsql.Parse(left); err != nil {
				t.Fatalf("%q moved left became %q, which does not parse: %v", got, left, err)
			}
		}
		for _, m := range selectors(e) {
			if len(m.LabelFilterss) == 0 {
				t.Fatalf("%q: a selector of %q has no labels", q, got)
			}
			for _, group := range m.LabelFilterss {
				if !carries(group) {
					t.Fatalf("%q: a group of %q lacks a label", q, got)
				}
			}
		}
	})
}

func carries(group []metricsql.LabelFilter) bool {
	for _, l := range labels {
		found := false
		for _, f := range group {
			found = found || f.Label == l.Name && f.Value == l.Value && !f.IsNegative && !f.IsRegexp
		}
		if !found {
			return false
		}
	}
	return true
}
