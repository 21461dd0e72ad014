package cli

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/cli/screen"
	"github.com/muster-fleet/muster/internal/model"
)

// queryFlags holds the flags of muster query.
type queryFlags struct{ at, period, step string }

// queryCommand makes the command muster query, which evaluates a PromQL expression.
func queryCommand(s *commandLine) *cobra.Command {
	f := &queryFlags{}
	return s.buildCommand(command{
		use: "query EXPRESSION", short: "Evaluate a PromQL expression over the values of items", args: cobra.ExactArgs(1),
		flags: func(flags *pflag.FlagSet) {
			flags.StringVar(&f.at, "at", "", "time of the values, or end of --range: "+pastTimes+"; default now")
			flags.StringVar(&f.period, "range", "", "draw the values of a period of this length: 1h")
			flags.StringVar(&f.step, "step", "", "time between two values of --range; default: as the plot has columns")
		},
		run: f.run,
	})
}

// run evaluates a PromQL expression at one time or over a period, and prints the result.
func (f *queryFlags) run(c *commandCall) error {
	at, err := parsePastTime(c.commandLine, "at", f.at)
	if err != nil {
		return err
	}
	if at.IsZero() {
		at = c.Now()
	}
	if f.period == "" {
		if f.step != "" {
			return model.Errorf(model.Invalid, "--step needs --range").WithHint("muster query EXPRESSION --range 1h --step %s", f.step)
		}
		result, err := c.api.QuerySeries(c.ctx, c.listNamespace(), c.args[0], at)
		if err != nil {
			return expressionError(err, c.args[0])
		}
		return printQueryResult(c, &result, func(rows []v1.SeriesRow) error { return printSeriesTable(c, rows) })
	}
	period, err := parsePositiveDuration("range", f.period)
	if err != nil {
		return err
	}
	step := max(period/plotColumns, time.Second)
	if f.step != "" {
		if step, err = parsePositiveDuration("step", f.step); err != nil {
			return err
		}
	}
	start := at.Add(-period)
	result, err := c.api.QuerySeriesRange(c.ctx, c.listNamespace(), c.args[0], start, at, step)
	if err != nil {
		return expressionError(err, c.args[0])
	}
	return printQueryResult(c, &result, func(rows []v1.SeriesRow) error { return drawPlot(c, rows, start, at) })
}

// itemKey matches an expression that is the key of an item, such as vfs.fs.size[/,used].
var itemKey = regexp.MustCompile(`^[a-zA-Z0-9_-]+(\.[a-zA-Z0-9_-]+)+(\[.*\])?$`)

// parseError matches the server's error for an expression that is no PromQL, as a Prometheus writes it.
var parseError = regexp.MustCompile(`^invalid parameter "query": (\d+):(\d+): parse error: (.*)$`)

// expressionError says where an expression is wrong. If the expression is the key of an item, its hint has the PromQL
// expression for the item's series.
func expressionError(err error, expression string) error {
	var refused *model.Error
	if !errors.As(err, &refused) || refused.Class != model.Invalid {
		return err
	}
	if wrong := parseError.FindStringSubmatch(refused.Message); wrong != nil {
		at := textIf(strings.Contains(expression, "\n"), "line "+wrong[1]+", ") + "character " + wrong[2]
		refused = model.Errorf(model.Invalid, "the expression is wrong at %s: %s", at, wrong[3]).WithHint("an example: muster query 'rate(system_uptime[5m])'")
	}
	if !itemKey.MatchString(expression) {
		return refused
	}
	return refused.WithHint("%s is the key of an item. Its values: muster query '{item=%q}'", expression, expression)
}

// notMetrics matches the parts of an expression that hold no name of a metric: texts, labels, durations, functions.
var notMetrics = regexp.MustCompile("\"[^\"]*\"|'[^']*'|`[^`]*`|\\{[^}]*\\}|\\[[^]]*\\]|\\b(by|without|on|ignoring|group_left|group_right)\\s*\\([^)]*\\)|[a-z_0-9]+\\s*\\(|[0-9]\\w*")

// metricName matches a name of a metric.
var metricName = regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*`)

// unknownMetricHint returns a hint with the existing metric name most similar to an unknown name. If no hint is
// needed or possible, the text is empty.
func unknownMetricHint(c *commandCall, expression string) (hint string, err error) {
	names, err := c.api.MetricNames(c.ctx, c.listNamespace())
	for _, name := range metricName.FindAllString(notMetrics.ReplaceAllString(expression, " "), -1) {
		if near := model.Nearest(name, names); near != "" && near != name {
			return fmt.Sprintf("no series has the name %s: did you mean %s?", name, near), err
		}
	}
	return "", err
}

// parsePositiveDuration parses a duration flag and refuses zero and negative values.
func parsePositiveDuration(flag, text string) (time.Duration, error) {
	d, err := model.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, model.Errorf(model.Invalid, "--%s %q is not a duration", flag, text).WithHint("for example: --%s 15m", flag)
	}
	return time.Duration(d), nil
}

// printQueryResult prints the result of a PromQL query in the format of -o, with warnings below the table.
func printQueryResult(c *commandCall, result *v1.SeriesResult, people func([]v1.SeriesRow) error) error {
	if c.Format.IsForPrograms() {
		return c.WriteValue(result)
	}
	rows, err := result.Rows()
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		if hint, err := unknownMetricHint(c, c.args[0]); err != nil || hint != "" {
			c.Wrapf(2, "%s", hint)
			return err
		}
		c.Wrapf(2, "no series match%s", textIf(!c.allNamespaces, " in namespace "+c.objectNamespace()+". All namespaces: -A"))
	} else if err := people(rows); err != nil {
		return err
	}
	for _, warning := range result.Warnings {
		c.Wrapf(2, "! %s", warning)
	}
	return nil
}

// printSeriesTable prints a table with one line per time series of a query result.
func printSeriesTable(c *commandCall, rows []v1.SeriesRow) error {
	name := seriesNames(rows)
	return screen.NewTable(rows, screen.SplitColumns("SERIES|VALUE"), func(r v1.SeriesRow) []any {
		value := r.Value.Value
		if len(r.Values) > 0 { // of an expression such as x[5m]
			value = strings.Join(convertEach(r.Values, func(p v1.SeriesPoint) string { return p.Value }), " ")
		}
		return []any{name(r.Metric), value}
	}).Write(c.Screen)
}

// seriesNames returns a function that formats the name of each series in a result. A name has the label template only if
// two series differ in nothing else, or if the series has no label node.
func seriesNames(rows []v1.SeriesRow) func(metric map[string]string) string {
	count := map[string]int{}
	short := func(metric map[string]string) string { return seriesName(metric, metric["node"] == "") }
	for i := range rows {
		count[short(rows[i].Metric)]++
	}
	return func(metric map[string]string) string {
		return seriesName(metric, metric["node"] == "" || count[short(metric)] > 1)
	}
}

// seriesName formats a time series in PromQL's notation, with or without its label named template.
func seriesName(metric map[string]string, template bool) string {
	var parts []string
	for _, label := range slices.Sorted(maps.Keys(metric)) {
		if label != "__name__" && (template || label != "template") {
			parts = append(parts, label+"="+strconv.Quote(metric[label]))
		}
	}
	return metric["__name__"] + "{" + strings.Join(parts, ",") + "}"
}

// Size of a plot.
const (
	plotColumns = 60
	plotLines   = 15
	plotLetters = "abcdefghijklmnopqrstuvwxyz"
)

// drawPlot draws time series as a text chart, with one letter for each series. The first series is on top, and
// the scale is on the left.
func drawPlot(c *commandCall, rows []v1.SeriesRow, start, end time.Time) error {
	low, high := math.Inf(1), math.Inf(-1)
	type dot struct{ seconds, value float64 }
	drawn := rows[:min(len(rows), len(plotLetters))]
	dots := make([][]dot, len(drawn))
	for i := range drawn {
		for _, p := range drawn[i].Values {
			if v, err := strconv.ParseFloat(p.Value, 64); err == nil && !math.IsNaN(v) && !math.IsInf(v, 0) {
				dots[i] = append(dots[i], dot{p.Seconds, v})
				low, high = min(low, v), max(high, v)
			}
		}
	}
	if low > high {
		c.Printf("no numbers between %s and %s\n", c.DateAndTime(start), c.DateAndTime(end))
		return nil
	}
	if low == high {
		low, high = low-1, high+1
	}
	var grid [plotLines][]byte
	for line := range grid {
		grid[line] = []byte(strings.Repeat(" ", plotColumns))
	}
	from, width := float64(start.UnixMilli())/1000, end.Sub(start).Seconds()
	for i := len(drawn) - 1; i >= 0; i-- {
		for _, d := range dots[i] {
			column := min(max(int((d.seconds-from)/width*(plotColumns-1)+0.5), 0), plotColumns-1)
			line := min(max(int((high-d.value)/(high-low)*(plotLines-1)+0.5), 0), plotLines-1)
			grid[line][column] = plotLetters[i]
		}
	}
	for line := range grid {
		scale := ""
		if line%7 == 0 {
			scale = strconv.FormatFloat(high-(high-low)*float64(line)/(plotLines-1), 'g', 5, 64)
		}
		c.Printf("%12s |%s\n", scale, strings.TrimRight(" "+string(grid[line]), " "))
	}
	c.Printf("%12s   %s%*s\n", "", c.TimeOfDay(start), plotColumns-len(time.TimeOnly), c.TimeOfDay(end))
	name := seriesNames(rows)
	for i := range drawn {
		c.Printf("%c  %s\n", plotLetters[i], name(drawn[i].Metric))
	}
	if more := len(rows) - len(drawn); more > 0 {
		c.Printf("%d more series are not drawn: choose fewer, for example topk(5, …)\n", more)
	}
	return nil
}
