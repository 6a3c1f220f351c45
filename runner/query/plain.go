package query

import (
	"strings"
	"time"

	"github.com/VictoriaMetrics/metricsql"
)

// Rollup is the one function over the one series that a plain query is.
type Rollup struct {
	Func   string    // in lower case, such as quantile_over_time
	Args   []float64 // its numbers, in order, without the series
	Series string    // the metric's name
	Sum    bool      // it is inside sum(...): of several series with that name the sum is asked for
}

// Plain takes apart a query that is FUNC(numbers, SERIES[$window]), with the numbers before or after the series, or such
// a function inside sum, avg, min or max, which change nothing of one value. ok is false for everything else: filters, an
// offset, arithmetic, several series.
func Plain(expr string) (r Rollup, ok bool) {
	e, err := parse(expr, time.Minute)
	if err != nil {
		return Rollup{}, false
	}
	if a, is := e.(*metricsql.AggrFuncExpr); is {
		switch strings.ToLower(a.Name) {
		case "sum", "avg", "min", "max":
		default:
			return Rollup{}, false
		}
		if len(a.Args) != 1 || len(a.Modifier.Args) > 0 || a.Limit > 0 {
			return Rollup{}, false
		}
		r.Sum = strings.EqualFold(a.Name, "sum")
		e = a.Args[0]
	}
	f, is := e.(*metricsql.FuncExpr)
	if !is {
		return Rollup{}, false
	}
	r.Func = strings.ToLower(f.Name)
	for _, arg := range f.Args {
		switch x := arg.(type) {
		case *metricsql.NumberExpr:
			r.Args = append(r.Args, x.N)
		case *metricsql.DurationExpr: // 2s is the number 2
			if string(x.AppendString(nil)) == sixtySeconds || x.Duration(1) != x.Duration(2) {
				return Rollup{}, false // the window itself, or a multiple of a step
			}
			r.Args = append(r.Args, float64(x.Duration(1))/1000)
		case *metricsql.RollupExpr:
			if r.Series != "" {
				return Rollup{}, false
			}
			if r.Series = plainSeries(x); r.Series == "" {
				return Rollup{}, false
			}
		default:
			return Rollup{}, false
		}
	}
	return r, r.Series != ""
}

// plainSeries is the NAME of NAME[$window], or "".
func plainSeries(x *metricsql.RollupExpr) string {
	m, is := x.Expr.(*metricsql.MetricExpr)
	if !is || x.Window == nil || x.Offset != nil || x.Step != nil || x.At != nil || x.InheritStep {
		return ""
	}
	if string(x.Window.AppendString(nil)) != sixtySeconds || len(m.LabelFilterss) != 1 || len(m.LabelFilterss[0]) != 1 {
		return ""
	}
	f := m.LabelFilterss[0][0]
	if f.Label != "__name__" || f.IsRegexp || f.IsNegative {
		return ""
	}
	return f.Value
}
