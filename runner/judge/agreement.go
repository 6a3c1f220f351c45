package judge

import (
	"fmt"
	"math"

	"h100-inference-control-plane/runner/result"
)

const (
	tokenTolerance = 0.001 // ratio
	timeTolerance  = 0.10  // ratio, and
	timeSlack      = 0.005 // seconds: what HTTP and the event loop may add
	stampSlack     = 1e-4  // seconds by which the two clocks' stamps may cross
)

// Agreement compares what client and server counted over the same window, each on its own. Requests must be equal,
// tokens within 0.1 %, the client's mean TTFT and E2E between the server's and 10 % + 5 ms above it. Nothing can be said
// (null) when one side did not report, or when failed requests are in the server's number alone.
func Agreement(c *result.Client, s *result.Server) []result.Agreement {
	if c == nil {
		c = &result.Client{}
	}
	if s == nil {
		s = &result.Server{}
	}
	rows := []result.Agreement{
		requests(c, s),
		tokens("prompt tokens", c.PromptTokens, s.PromptTokens, c.Failed),
		tokens("output tokens", c.OutputTokens, s.OutputTokens, c.Failed),
	}
	var ttft, e2e *float64
	if c.TTFT != nil {
		ttft = ptr(c.TTFT.Mean)
	}
	if c.E2E != nil {
		e2e = ptr(c.E2E.Mean)
	}
	// The engine does not see how late a request was sent.
	if c.TTFTSent != nil && ttft != nil {
		late := *ttft - *c.TTFTSent
		ttft = c.TTFTSent
		if e2e != nil {
			e2e = ptr(*e2e - late)
		}
	}
	return append(rows, times("mean TTFT", ttft, s.MeanTTFT, c.Failed), times("mean E2E", e2e, s.MeanE2E, c.Failed))
}

// requests compares successes. A request that failed here may have been finished there.
func requests(c *result.Client, s *result.Server) result.Agreement {
	a := result.Agreement{What: "requests", Server: s.Requests, Limit: "equal"}
	if c.Requests == 0 {
		return a
	}
	a.Client = ptr(float64(c.Succeeded))
	if c.Failed > 0 {
		a.Limit = fmt.Sprintf("between %d succeeded and %d sent", c.Succeeded, c.Requests)
	}
	if a.Server != nil {
		got := math.Round(*a.Server)
		a.Agrees = ptr(got >= float64(c.Succeeded) && got <= float64(c.Requests))
	}
	return a
}

func tokens(what string, client *int64, server *float64, failed int) result.Agreement {
	a := result.Agreement{What: what, Server: server, Limit: "within 0.1 %"}
	if client != nil {
		a.Client = ptr(float64(*client))
	}
	if a.Client == nil || a.Server == nil {
		return a
	}
	diff := *a.Server - *a.Client
	if failed > 0 && diff > tokenTolerance**a.Client {
		a.Limit = "not comparable: the server's number has the tokens of failed requests"
		return a
	}
	a.Agrees = ptr(math.Abs(diff) <= tokenTolerance*math.Max(*a.Client, *a.Server))
	return a
}

func times(what string, client, server *float64, failed int) result.Agreement {
	a := result.Agreement{What: what, Client: client, Server: server, Limit: "from the server's to 10 % + 5 ms above it"}
	if client == nil || server == nil {
		return a
	}
	if failed > 0 {
		a.Limit = "not comparable: the server's number has failed requests"
		return a
	}
	a.Agrees = ptr(*client >= *server-stampSlack && *client <= *server*(1+timeTolerance)+timeSlack)
	return a
}
