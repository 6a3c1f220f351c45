package result

import (
	"cmp"

	"h100-inference-control-plane/runner/record"
)

// MaxCoalesced is the share of events that shared a socket read from which the gaps between reads say nothing about
// tokens any more.
const MaxCoalesced = 0.05

// SummaryOptions is what the records of a trial do not say about it. The zero value is fine.
type SummaryOptions struct {
	// Seconds is the length of the load on the wall; 0 = from the first schedule to the last end in the records.
	Seconds float64
	// Exact returns the number of tokens that the answer to request index had to have; 0 = any. Nil = any for all.
	Exact func(index int32) int
	// InterChunk are the gaps between the reads of all streams; Summarise drops them above MaxCoalesced.
	InterChunk *Dist
}

// Summarise makes the Client block of a trial from its requests. It is never nil. records are left alone.
func Summarise(records []record.Record, o SummaryOptions) *Client {
	c := &Client{Requests: len(records)}
	if o.Seconds <= 0 {
		o.Seconds = span(records)
	}
	c.count(records, o.Exact)
	c.time(records)
	c.tokens(records)
	if o.Seconds > 0 {
		c.WallSeconds = &o.Seconds
		c.rates(records)
	}
	if c.Coalesced != nil && *c.Coalesced <= MaxCoalesced {
		c.InterChunk = o.InterChunk
	}
	return c
}

// span is the time from the first schedule to the last end, in seconds; 0 without requests.
func span(records []record.Record) float64 {
	first, last := int64(record.Never), int64(record.Never)
	for _, r := range records {
		if first == record.Never || r.Scheduled < first {
			first = r.Scheduled
		}
		last = max(last, r.End)
	}
	if first == record.Never || last < first {
		return 0
	}
	return float64(last-first) / 1e6
}

// count tells successes from failures, and keeps the message of the failure that came first.
func (c *Client) count(records []record.Record, exact func(int32) int) {
	var first *record.Record
	for i := range records {
		r := &records[i]
		if r.Err == record.OK {
			c.Succeeded++
			switch {
			case r.OutputTokens < 0:
				c.NoUsage++
			case exact != nil && exact(r.Index) > 0 && int(r.OutputTokens) != exact(r.Index):
				c.WrongLength++
			}
			continue
		}
		c.Failed++
		if c.Errors == nil {
			c.Errors = map[string]int{}
		}
		c.Errors[string(r.Err)]++
		if r.Detail != "" && (first == nil || cmp.Or(cmp.Compare(r.End, first.End), cmp.Compare(r.Index, first.Index)) < 0) {
			first = r
		}
	}
	if first != nil {
		c.ErrorDetail = first.Detail
	}
}

// time describes latencies and lengths of the successes.
func (c *Client) time(records []record.Record) {
	var ttft, tpot, e2e, sent, out, prompt []float64
	var events, coalesced int64
	add := func(to *[]float64, v float64, ok bool) {
		if ok {
			*to = append(*to, v)
		}
	}
	for _, r := range records {
		if r.Err != record.OK {
			continue
		}
		t, ok := r.TTFT()
		add(&ttft, t, ok)
		if late, have := r.Lateness(); ok && have {
			add(&sent, t-late, true)
		}
		t, ok = r.TPOT()
		add(&tpot, t, ok)
		t, ok = r.E2E()
		add(&e2e, t, ok)
		add(&out, float64(r.OutputTokens), r.OutputTokens >= 0)
		add(&prompt, float64(r.PromptTokens), r.PromptTokens >= 0)
		events += int64(max(r.Events, 0))
		coalesced += int64(max(r.Coalesced, 0))
	}
	c.TTFT, c.TPOT, c.E2E = dist(ttft), dist(tpot), dist(e2e)
	c.OutputLength, c.PromptLength = dist(out), dist(prompt)
	if d := dist(sent); d != nil {
		c.TTFTSent = &d.Mean
	}
	if events > 0 {
		share := float64(coalesced) / float64(events)
		c.Coalesced = &share
	}
}

// tokens adds up what the server reported. A sum with a part missing is no sum.
func (c *Client) tokens(records []record.Record) {
	var prompt, output, cached int64
	var noPrompt, noOutput, haveCached int
	for _, r := range records {
		if r.Err != record.OK {
			continue
		}
		if r.PromptTokens >= 0 {
			prompt += int64(r.PromptTokens)
		} else {
			noPrompt++
		}
		if r.OutputTokens >= 0 {
			output += int64(r.OutputTokens)
		} else {
			noOutput++
		}
		if r.CachedTokens >= 0 {
			cached += int64(r.CachedTokens)
			haveCached++
		}
	}
	if c.Succeeded > 0 && noPrompt == 0 {
		c.PromptTokens = &prompt
	}
	if c.Succeeded > 0 && noOutput == 0 {
		c.OutputTokens = &output
	}
	if haveCached > 0 {
		c.CachedTokens = &cached
	}
}

// rates divides by the wall time.
func (c *Client) rates(records []record.Record) {
	wall := *c.WallSeconds
	if c.Succeeded > 0 {
		v := float64(c.Succeeded) / wall
		c.RequestsPerS = &v
	}
	if c.OutputTokens != nil {
		v := float64(*c.OutputTokens) / wall
		c.OutputPerS = &v
	}
	var busy int64
	for _, r := range records {
		if r.Sent != record.Never && r.End != record.Never {
			busy += r.End - r.Sent
		}
	}
	if len(records) > 0 {
		v := float64(busy) / 1e6 / wall
		c.MeanInFlight = &v
	}
}
